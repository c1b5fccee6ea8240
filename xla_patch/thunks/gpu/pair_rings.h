// Staging memory between every two PEs of the GPU path: a ring of slots and signal words in each direction, at offsets
// that follow from the number of PEs alone (docs/protocol.md, "On GPU").
//
// Operations between two PEs are enqueued in the same order on both: message m from a to b goes through slot m mod K of
// the ring in b's arena. The words of each direction:
//
//   arrived  at the receiver, one for each slot: the last message put, with the tag of its operation (message_tag.h)
//   credit   at the sender: messages consumed so far
//
// A slot's word keeps its value until the receiver has given credit for it. A ring has an even number of slots, so all
// messages of a slot, with their words, are sent on one of the two streams that take turns.
//
// The words lie in an array with an element for each peer: PE b keeps the words of the pair (a, b) in its element a. PE
// a has no peer a, so its own element a is unused. A copied signal (Signals::kCopies) is written there first.
#ifndef XLA_SHMEM_THUNKS_GPU_PAIR_RINGS_H_
#define XLA_SHMEM_THUNKS_GPU_PAIR_RINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/arena_layout.h"

namespace xla_shmem::gpu {

// What the streams wait for in one operation, for errors.
struct Expectation {
  int peer;
  bool credit;            // else arrival
  const uint64_t* words;  // the credit, or the words of all slots
  size_t count;
  uint32_t tag;    // of arrivals
  uint64_t first;  // messages, counted from 1
  uint64_t last;
};

inline constexpr size_t kSendStreams = 2;

// This PE's ends of all pairs. Only enqueues. One thread at a time may use it.
class PairRings {
 public:
  // `arena`: local address of the symmetric arena, all of it zero on every PE before the first message. `messages`: how
  // many messages of each pair count as sent and consumed already; a test that uses it also sets the credit to it.
  PairRings(Device* device, const PairLayout& layout, int pe, char* arena, uint64_t messages = 0)
      : device_(device),
        layout_(layout),
        pe_(pe),
        arena_(arena),
        sent_(layout.n_pes(), messages),
        awaited_(layout.n_pes() * kSendStreams, messages),
        received_(layout.n_pes(), messages) {}

  Device& device() const { return *device_; }
  const PairLayout& layout() const { return layout_; }
  int pe() const { return pe_; }

  // The send stream of the next message to `to`, or of the one that is so many messages behind it.
  size_t SendStream(int to, size_t ahead = 0) const { return (sent_[to] + ahead) % kSendStreams; }
  // Waits until that message has a slot; `stream` is that send stream, or one in whose order all messages are sent.
  void EnqueueCreditWait(int to, size_t ahead, BatchedStream& stream);
  // Sends one message of operation `tag` to `to`, once it has a slot: `pieces` of `buffers`.
  void EnqueueMessage(int to, uint32_t tag, const std::vector<const char*>& buffers, const std::vector<Piece>& pieces,
                      BatchedStream& stream);
  // Waits for the next message from `from`, which must be of operation `tag`; returns its slot.
  const char* EnqueueArrival(int from, uint32_t tag, BatchedStream& stream);
  // Comes behind the last use of the last arrival. Returns slots once half a ring has been used.
  void EnqueueCredit(int from, BatchedStream& stream);

  // What the watchdog says of an operation that is late: the waits enqueued since the last call are its.
  LateTransfer TakeLateTransfer(const std::string& name);

 private:
  uint64_t* Word(size_t offset) const { return reinterpret_cast<uint64_t*>(arena_ + offset); }
  void Expect(const Expectation& expectation);

  Device* const device_;
  const PairLayout layout_;
  const int pe_;
  char* const arena_;
  std::vector<uint64_t> sent_;      // messages enqueued, by receiver
  std::vector<uint64_t> awaited_;   // the highest credit that a wait was enqueued for, by receiver and send stream
  std::vector<uint64_t> received_;  // by sender
  std::vector<Expectation> expectations_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_PAIR_RINGS_H_
