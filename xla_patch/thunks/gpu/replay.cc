#include "xla_patch/thunks/gpu/replay.h"

#include <algorithm>
#include <vector>

#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/collective_permute.h"

namespace xla_shmem::gpu {
namespace {

constexpr size_t kSlots = PairLayout::kReplaySlots;
// How many chunks a PE puts before it receives the first one. With this lead a PE waits only for arrivals that its peer
// sent a chunk earlier, and with one slot more than that also only for such grants.
constexpr size_t kLead = 1;
static_assert(kLead < kSlots - 1);

class Exchange {
 public:
  Exchange(PairRings* rings, uint32_t tag, const ReplayWaits& waits, CudaStream stream)
      : rings_(rings), set_(TaggedWord(tag, 1)), waits_(waits), stream_(&rings->device(), stream) {}

  BatchedStream& stream() { return stream_; }

  // Allows `source` to put into the slot.
  void Grant(int source, size_t slot) { stream_.Signal(rings_->PeerReplayWords(slot).grant, set_, source); }

  void Put(int target, size_t slot, const std::vector<const char*>& buffers, const std::vector<Piece>& pieces) {
    Tell(waits_.grant);
    Await(rings_->OwnReplayWords(target, slot).grant);
    // This must come before the put. After the put the target may begin another operation, and the watchdog would take
    // the other tag of its grants for a fault of this wait.
    Tell(waits_.arrival);
    told_arrival_ = true;
    EnqueuePieces(stream_, rings_->PeerReplaySlot(target, slot), buffers, pieces, rings_->PeerReplayWords(slot).arrived,
                  set_, target);
  }

  const char* Receive(int source, size_t slot) {
    if (!told_arrival_) Tell(waits_.arrival);
    told_arrival_ = false;
    Await(rings_->OwnReplayWords(source, slot).arrived);
    return rings_->OwnReplaySlot(source, slot);
  }

  void Tell(uint64_t wait) {
    if (waits_.word != nullptr) stream_.Write(waits_.word, wait);
  }

 private:
  // Waits for the word, and sets it back.
  void Await(uint64_t* word) {
    stream_.WaitEqual(word, set_);
    stream_.Signal(word, 0, rings_->pe());
  }

  PairRings* const rings_;
  const uint64_t set_;  // the value of words that are set
  const ReplayWaits waits_;
  bool told_arrival_ = false;  // that wait is the next one
  BatchedStream stream_;
};

}  // namespace

void EnqueuePermuteReplay(PairRings& rings, const PermuteArguments& permute, const ReplayWaits& waits,
                          CudaStream stream) {
  const auto [source, target] = PeersOf(permute, rings.pe());
  const std::vector<std::vector<Piece>> chunks = ChunksOf(rings, permute);
  if (chunks.empty()) return;
  Exchange exchange(&rings, permute.tag, waits, stream);
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
