// Staging memory between every two PEs of the GPU path: one ring of slots and four signal words a direction, at offsets
// that follow from the number of PEs alone (docs/protocol.md, "On GPU").
//
// Operations between two PEs are enqueued in the same order on both, so messages need no name: message m from a to b
// goes through slot m mod K of the ring in b's arena. Each direction has two words that only grow:
//
//   arrived  at the receiver: messages put so far       credit  at the sender: messages consumed so far
//
// CUDA graphs repeat a sequence with constant values, so replays have a slot and words of their own (replay.h).
#ifndef XLA_SHMEM_THUNKS_GPU_PAIR_RINGS_H_
#define XLA_SHMEM_THUNKS_GPU_PAIR_RINGS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

struct ReplayWords {
  uint64_t* grant;
  uint64_t* arrived;
};

// Puts `pieces` of `buffers` into `slot` at PE `to`, then sets `word` there: one message. The last put carries the
// signal, and NVSHMEM delivers the signal after the data.
void EnqueuePieces(Device& device, char* slot, const std::vector<const char*>& buffers,
                   const std::vector<Piece>& pieces, uint64_t* word, uint64_t value, int to, CudaStream stream);

class PairLayout {
 public:
  // Divides `arena_bytes` of every PE among its peers. Error if that is too little.
  static Result<PairLayout> Create(int n_pes, size_t arena_bytes);

  int n_pes() const { return n_pes_; }
  size_t slot_bytes() const { return slot_bytes_; }
  uint32_t num_slots() const { return num_slots_; }

  // Offsets in the arena of PE `me`, for the pair (me, peer).
  size_t Arrived(int peer) const { return WordOffset(peer, 0); }
  size_t Credit(int peer) const { return WordOffset(peer, 1); }
  size_t ReplayGrant(int peer) const { return WordOffset(peer, 2); }
  size_t ReplayArrived(int peer) const { return WordOffset(peer, 3); }
  // Memory at `me` that `peer` puts into.
  size_t Slot(int me, int peer, uint64_t message) const;
  size_t ReplaySlot(int me, int peer) const;

  // Bytes for a few slots a peer. Less memory makes smaller slots; more is used up to kMaxSlots slots.
  static size_t RecommendedBytes(int n_pes);

 private:
  // Each word has a cache line of its own (128 bytes on GPUs).
  static constexpr size_t kLine = 128;
  static constexpr size_t kWordsPerPeer = 4;
  size_t WordOffset(int peer, size_t word) const { return (peer * kWordsPerPeer + word) * kLine; }
  size_t PeerRegion(int me, int peer) const;

  int n_pes_ = 0;
  size_t slot_bytes_ = 0;
  uint32_t num_slots_ = 0;
};

// A signal word and the value that a stream waits for, for deadline errors.
struct Expectation {
  int peer;
  bool credit;  // else arrival
  const uint64_t* word;
  uint64_t value;
};

// This PE's ends of all pairs. Only enqueues. One thread at a time may use it.
class PairRings {
 public:
  // `arena`: local address of the symmetric arena, all of it zero on every PE before the first message.
  PairRings(Device* device, const PairLayout& layout, int pe, char* arena)
      : device_(device), layout_(layout), pe_(pe), arena_(arena), sent_(layout.n_pes()), received_(layout.n_pes()) {}

  Device& device() const { return *device_; }
  const PairLayout& layout() const { return layout_; }
  int pe() const { return pe_; }

  // Sends one message to `to`: `pieces` of `buffers`, after the wait for its slot's credit.
  void EnqueueMessage(int to, const std::vector<const char*>& buffers, const std::vector<Piece>& pieces,
                      CudaStream stream);
  // Waits for the next message from `from`; returns its slot.
  const char* EnqueueArrival(int from, CudaStream stream);
  // Returns the slot of the last arrival.
  void EnqueueCredit(int from, CudaStream stream);

  // This PE's words for `peer`, and the local addresses of the words that peers keep for this PE.
  ReplayWords OwnReplayWords(int peer) const;
  ReplayWords PeerReplayWords() const;
  const char* OwnReplaySlot(int peer) const { return arena_ + layout_.ReplaySlot(pe_, peer); }
  char* PeerReplaySlot(int peer) const { return arena_ + layout_.ReplaySlot(peer, pe_); }

  // The waits enqueued since the last call: for each word the highest value.
  std::vector<Expectation> TakeExpectations();

 private:
  uint64_t* Word(size_t offset) const { return reinterpret_cast<uint64_t*>(arena_ + offset); }
  void Expect(int peer, bool credit, const uint64_t* word, uint64_t value);

  Device* const device_;
  const PairLayout layout_;
  const int pe_;
  char* const arena_;
  std::vector<uint64_t> sent_;      // messages enqueued, by receiver
  std::vector<uint64_t> received_;  // by sender
  std::vector<Expectation> expectations_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_PAIR_RINGS_H_
