#include "xla_patch/thunks/gpu/replay.h"

#include <algorithm>
#include <vector>

#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/collective_permute.h"

namespace xla_shmem::gpu {
namespace {

constexpr size_t kSlots = PairLayout::kReplaySlots;
// How many chunks are put before the first one is received. So neither an arrival nor, with one slot more, a grant must
// come within the time of a chunk.
constexpr size_t kLead = 1;
static_assert(kLead < kSlots - 1);

class Exchange {
 public:
  Exchange(PairRings* rings, const ReplayWaits& waits, CudaStream stream)
      : rings_(rings), waits_(waits), stream_(&rings->device(), stream) {}

  BatchedStream& stream() { return stream_; }

  // Allows `source` to put into the slot.
  void Grant(int source, size_t slot) { stream_.Signal(rings_->PeerReplayWords(slot).grant, 1, source); }

  void Put(int target, size_t slot, const std::vector<const char*>& buffers, const std::vector<Piece>& pieces) {
    Await(waits_.grant, rings_->OwnReplayWords(target, slot).grant);
    EnqueuePieces(stream_, rings_->PeerReplaySlot(target, slot), buffers, pieces, rings_->PeerReplayWords(slot).arrived,
                  1, target);
  }

  const char* Receive(int source, size_t slot) {
    Await(waits_.arrival, rings_->OwnReplayWords(source, slot).arrived);
    return rings_->OwnReplaySlot(source, slot);
  }

  void Tell(uint64_t wait) {
    if (waits_.word != nullptr) stream_.WriteHostWord(waits_.word, wait);
  }

 private:
  // Waits for the word, and sets it back.
  void Await(uint64_t wait, uint64_t* word) {
    Tell(wait);
    stream_.WaitEqual(word, 1);
    stream_.Signal(word, 0, rings_->pe());
  }

  PairRings* const rings_;
  const ReplayWaits waits_;
  BatchedStream stream_;
};

}  // namespace

void EnqueuePermuteReplay(PairRings& rings, const PermuteArguments& permute, const ReplayWaits& waits,
                          CudaStream stream) {
  const auto [source, target] = PeersOf(permute, rings.pe());
  const std::vector<std::vector<Piece>> chunks = ChunksOf(rings, permute);
  if (chunks.empty()) return;
  Exchange exchange(&rings, waits, stream);
  for (size_t slot = 0; slot < std::min(kSlots, chunks.size()) && source >= 0; ++slot) exchange.Grant(source, slot);
  for (size_t next = 0; next < chunks.size() + kLead; ++next) {
    if (next < chunks.size() && target >= 0) {
      exchange.Put(target, next % kSlots, permute.buffers.operands, chunks[next]);
    }
    if (next < kLead) continue;
    const size_t chunk = next - kLead;
    const char* arrived = source >= 0 ? exchange.Receive(source, chunk % kSlots) : nullptr;
    if (chunk + 1 == chunks.size() && (source >= 0 || target >= 0)) exchange.Tell(0);
    EnqueueResults(exchange.stream(), permute, chunks[chunk], arrived);
    if (chunk + kSlots < chunks.size() && source >= 0) exchange.Grant(source, chunk % kSlots);
  }
  exchange.stream().Flush();
}

}  // namespace xla_shmem::gpu
