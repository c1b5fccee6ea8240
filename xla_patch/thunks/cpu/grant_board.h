// How a sender on CPU learns where to put: grants that receivers publish on a board in the sender's heap.
//
// XLA:CPU runs independent collectives in different orders in different processes, so nothing may depend on the order
// in which operations arrive: a grant carries the key of the message it is for, and the sender picks the one it needs.
// A board has a few records for every receiver; a record is written only by that receiver, and its `state` word (0, or
// a generation that is never used twice) makes reading it safe at any moment:
//   publish: store body, signal state := generation   |   read: state, body, state again   |   withdraw: signal state
//   := 0
// A receiver with no free record in the probe window of a key tries again later; it holds nothing others wait for
// meanwhile.
#ifndef XLA_SHMEM_THUNKS_CPU_GRANT_BOARD_H_
#define XLA_SHMEM_THUNKS_CPU_GRANT_BOARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "xla_patch/shm/heap.h"
#include "xla_patch/thunks/cpu/message_key.h"

namespace xla_shmem {

struct alignas(64) GrantRecord {
  uint64_t state;
  MessageKey key;
  uint64_t block_offset;  // of the receiver's block: signal line, then the slots (channel.h)
  uint32_t slot_bytes;
  uint32_t num_slots;
  uint64_t credit;  // messages the receiver has consumed
};
static_assert(sizeof(GrantRecord) == 64);

class GrantBoard {
 public:
  // Bytes of symmetric memory a board takes on every PE.
  static size_t Bytes(int n_pes);
  // `offset` is where Bytes() have been allocated in every heap.
  GrantBoard(const shm::Heap* heap, size_t offset, int pe);

  // Receiver: publishes `grant` (state and credit are set here) on `sender`'s board. Record number, or -1 if none is
  // free.
  int Publish(int sender, const GrantRecord& grant);
  void Withdraw(int sender, int record);
  // Tells the sender of a published grant how many messages have been consumed.
  void Credit(int sender, int record, uint64_t consumed);

  // Sender: finds the grant that `receiver` published for `key`, copies it, and returns the local record; else nullptr.
  GrantRecord* Find(int receiver, const MessageKey& key, GrantRecord* grant) const;

 private:
  // For each receiver: as many operations as may be waiting for one sender at a time. XLA:CPU issues every collective
  // whose inputs are ready, so a step with hundreds of uncombined gradients needs hundreds.
  static constexpr int kRecords = 1024;
  static constexpr int kWindow = 16;  // records a key may be found in
  // What `receiver` has granted `sender`, on the board of the latter.
  GrantRecord* Row(int sender, int receiver) const {
    return reinterpret_cast<GrantRecord*>(heap_->base(sender) + offset_) + static_cast<size_t>(receiver) * kRecords;
  }

  const shm::Heap* const heap_;
  const size_t offset_;
  const int pe_;
  std::unique_ptr<std::atomic<bool>[]> used_;  // [sender][record]: published there by this PE
  std::atomic<uint64_t> generation_{0};
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_GRANT_BOARD_H_
