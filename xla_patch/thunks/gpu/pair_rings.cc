#include "xla_patch/thunks/gpu/pair_rings.h"

#include <algorithm>
#include <utility>

namespace xla_shmem::gpu {
namespace {

// Chunks of large messages (chunk_bytes.h) would be larger, but memory counts too.
constexpr size_t kMaxSlotBytes = 4 << 20;
constexpr size_t kMinSlotBytes = 4 << 10;
constexpr uint32_t kMinSlots = 4;
constexpr uint32_t kMaxSlots = 16;
static_assert(kMaxSlots <= Device::kMaxReadWords);

// Puts `pieces` of `buffers` into `slot` at PE `to`, then sets `word` there: one message. The last put carries the
// signal, and NVSHMEM delivers the signal after the data.
void EnqueuePieces(BatchedStream& stream, char* slot, const std::vector<const char*>& buffers,
                   const std::vector<Piece>& pieces, uint64_t* word, uint64_t value, int to) {
  for (const Piece& piece : pieces) {
    char* dest = slot + piece.slot_offset;
    const char* source = buffers[piece.buffer] + piece.buffer_offset;
    if (&piece == &pieces.back()) {
      stream.PutSignal(dest, source, piece.bytes, word, value, to);
    } else {
      stream.Put(dest, source, piece.bytes, to);
    }
  }
}

}  // namespace

Result<PairLayout> PairLayout::Create(int n_pes, size_t arena_bytes) {
  PairLayout layout;
  layout.n_pes_ = n_pes;
  const size_t peers = std::max(n_pes - 1, 1);
  static_assert(kMaxSlots * sizeof(uint64_t) <= kLine);
  const size_t words = n_pes * kLinesPerPeer * kLine;
  const size_t per_peer = arena_bytes > words ? (arena_bytes - words) / peers : 0;
  layout.slot_bytes_ = std::min(kMaxSlotBytes, per_peer / kMinSlots / kMinSlotBytes * kMinSlotBytes);
  if (layout.slot_bytes_ < kMinSlotBytes) {
    return Status::Error("a symmetric heap of " + std::to_string(arena_bytes) + " bytes is too small for " +
                         std::to_string(n_pes) + " PEs, which need " +
                         std::to_string(words + peers * kMinSlots * kMinSlotBytes) +
                         " at least: raise XLA_SHMEM_HEAP_SIZE");
  }
  const size_t slots = std::min<size_t>(kMaxSlots, per_peer / layout.slot_bytes_);
  layout.num_slots_ = static_cast<uint32_t>(slots / 2 * 2);
  return layout;
}

size_t PairLayout::RecommendedBytes(int n_pes) {
  const size_t peers = std::max(n_pes - 1, 1);
  // In jobs of more than eight PEs the memory should not grow as fast.
  const size_t slots = n_pes <= 8 ? 6 : kMinSlots;
  return n_pes * kLinesPerPeer * kLine + peers * slots * kMaxSlotBytes;
}

size_t PairLayout::PeerRegion(int me, int peer) const {
  // A PE does not put to itself, so there are n - 1 regions.
  const size_t index = peer < me ? peer : peer - 1;
  return WordOffset(n_pes_, 0, 0) + index * num_slots_ * slot_bytes_;
}

size_t PairLayout::Slot(int me, int peer, uint64_t message) const {
  return PeerRegion(me, peer) + message % num_slots_ * slot_bytes_;
}

void PairRings::EnqueueCreditWait(int to, size_t ahead, BatchedStream& stream) {
  const uint64_t half = layout_.num_slots() / 2;
  // Messages up to this one may be on their way; it is the last of its half.
  const uint64_t last = ((sent_[to] + ahead) / half + 1) * half;
  uint64_t& awaited = awaited_[to * kSendStreams + SendStream(to, ahead)];
  if (last <= layout_.num_slots() + awaited) return;
  awaited = last - layout_.num_slots();
  uint64_t* credit = Word(layout_.Credit(to));
  stream.WaitAtLeast(credit, awaited);
  Expect({to, /*credit=*/true, credit, 1, 0, awaited, awaited});
}

void PairRings::EnqueueMessage(int to, uint32_t tag, const std::vector<const char*>& buffers,
                               const std::vector<Piece>& pieces, BatchedStream& stream) {
  EnqueueCreditWait(to, /*ahead=*/0, stream);
  const uint64_t message = sent_[to]++;
  EnqueuePieces(stream, arena_ + layout_.Slot(to, pe_, message), buffers, pieces, Word(layout_.Arrived(pe_, message)),
                TaggedWord(tag, message + 1), to);
}

const char* PairRings::EnqueueArrival(int from, uint32_t tag, BatchedStream& stream) {
  const uint64_t message = received_[from]++;
  stream.WaitEqual(Word(layout_.Arrived(from, message)), TaggedWord(tag, message + 1));
  Expect({from, /*credit=*/false, Word(layout_.Arrived(from, 0)), layout_.num_slots(), tag, message + 1, message + 1});
  return arena_ + layout_.Slot(pe_, from, message);
}

void PairRings::EnqueueCredit(int from, BatchedStream& stream) {
  if (received_[from] % (layout_.num_slots() / 2) != 0) return;
  stream.Signal(Word(layout_.Credit(pe_)), received_[from], from);
}

void PairRings::Expect(const Expectation& expectation) {
  for (Expectation& known : expectations_) {
    if (known.words == expectation.words) {
      known.last = std::max(known.last, expectation.last);
      return;
    }
  }
  expectations_.push_back(expectation);
}

std::vector<Expectation> PairRings::TakeExpectations() { return std::exchange(expectations_, {}); }

}  // namespace xla_shmem::gpu
