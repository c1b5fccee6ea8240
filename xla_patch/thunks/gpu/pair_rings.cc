#include "xla_patch/thunks/gpu/pair_rings.h"

#include <algorithm>
#include <utility>

namespace xla_shmem::gpu {
namespace {

// A slot should be large enough to amortise its handshake at NVLink's speed, and small enough that copies out of it
// overlap with the next put. These are first guesses, to be tuned on a GPU.
constexpr size_t kMaxSlotBytes = 4 << 20;
constexpr size_t kMinSlotBytes = 4 << 10;
constexpr uint32_t kMinSlots = 4;
constexpr uint32_t kMaxSlots = 16;

}  // namespace

void EnqueuePieces(Device& device, char* slot, const std::vector<const char*>& buffers,
                   const std::vector<Piece>& pieces, uint64_t* word, uint64_t value, int to, CudaStream stream) {
  for (const Piece& piece : pieces) {
    char* dest = slot + piece.slot_offset;
    const char* source = buffers[piece.buffer] + piece.buffer_offset;
    if (&piece == &pieces.back()) {
      device.PutSignal(dest, source, piece.bytes, word, value, to, stream);
    } else {
      device.Put(dest, source, piece.bytes, to, stream);
    }
  }
}

Result<PairLayout> PairLayout::Create(int n_pes, size_t arena_bytes) {
  PairLayout layout;
  layout.n_pes_ = n_pes;
  const size_t peers = std::max(n_pes - 1, 1);
  const size_t words = n_pes * kWordsPerPeer * kLine;
  const size_t per_peer = arena_bytes > words ? (arena_bytes - words) / peers : 0;
  // Each peer has one more slot, for replays.
  layout.slot_bytes_ = std::min(kMaxSlotBytes, per_peer / (kMinSlots + 1) / kMinSlotBytes * kMinSlotBytes);
  if (layout.slot_bytes_ < kMinSlotBytes) {
    return Status::Error("a symmetric heap of " + std::to_string(arena_bytes) + " bytes is too small for " +
                         std::to_string(n_pes) + " PEs, which need " +
                         std::to_string(words + peers * (kMinSlots + 1) * kMinSlotBytes) +
                         " at least: raise XLA_SHMEM_HEAP_SIZE");
  }
  layout.num_slots_ = static_cast<uint32_t>(std::min<size_t>(kMaxSlots, per_peer / layout.slot_bytes_ - 1));
  return layout;
}

size_t PairLayout::RecommendedBytes(int n_pes) {
  const size_t peers = std::max(n_pes - 1, 1);
  // Twice the slots for up to eight PEs; in larger jobs the memory should not grow as fast.
  const size_t slots = n_pes <= 8 ? 2 * kMinSlots : kMinSlots;
  return n_pes * kWordsPerPeer * kLine + peers * (slots + 1) * kMaxSlotBytes;
}

size_t PairLayout::PeerRegion(int me, int peer) const {
  // A PE does not put to itself, so there are n - 1 regions.
  const size_t index = peer < me ? peer : peer - 1;
  return WordOffset(n_pes_, 0) + index * (num_slots_ + 1) * slot_bytes_;
}

size_t PairLayout::Slot(int me, int peer, uint64_t message) const {
  return PeerRegion(me, peer) + (1 + message % num_slots_) * slot_bytes_;
}

size_t PairLayout::ReplaySlot(int me, int peer) const { return PeerRegion(me, peer); }

void PairRings::EnqueueMessage(int to, const std::vector<const char*>& buffers, const std::vector<Piece>& pieces,
                               CudaStream stream) {
  const uint64_t message = sent_[to]++;
  if (message >= layout_.num_slots()) {
    uint64_t* credit = Word(layout_.Credit(to));
    const uint64_t value = message + 1 - layout_.num_slots();
    device_->WaitAtLeast(credit, value, stream);
    Expect(to, /*credit=*/true, credit, value);
  }
  EnqueuePieces(*device_, arena_ + layout_.Slot(to, pe_, message), buffers, pieces, Word(layout_.Arrived(pe_)),
                message + 1, to, stream);
}

const char* PairRings::EnqueueArrival(int from, CudaStream stream) {
  const uint64_t message = received_[from]++;
  uint64_t* arrived = Word(layout_.Arrived(from));
  device_->WaitAtLeast(arrived, message + 1, stream);
  Expect(from, /*credit=*/false, arrived, message + 1);
  return arena_ + layout_.Slot(pe_, from, message);
}

void PairRings::EnqueueCredit(int from, CudaStream stream) {
  device_->Signal(Word(layout_.Credit(pe_)), received_[from], from, stream);
}

ReplayWords PairRings::OwnReplayWords(int peer) const {
  return {Word(layout_.ReplayGrant(peer)), Word(layout_.ReplayArrived(peer))};
}

ReplayWords PairRings::PeerReplayWords() const {
  return {Word(layout_.ReplayGrant(pe_)), Word(layout_.ReplayArrived(pe_))};
}

void PairRings::Expect(int peer, bool credit, const uint64_t* word, uint64_t value) {
  for (Expectation& expectation : expectations_) {
    if (expectation.word == word) {
      expectation.value = value;
      return;
    }
  }
  expectations_.push_back({peer, credit, word, value});
}

std::vector<Expectation> PairRings::TakeExpectations() { return std::exchange(expectations_, {}); }

}  // namespace xla_shmem::gpu
