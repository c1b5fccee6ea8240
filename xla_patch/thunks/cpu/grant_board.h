// Grants tell a sender on CPU where to put a message. Receivers publish them on a board in the sender's heap.
//
// XLA:CPU runs independent collectives in different orders in different processes, so nothing may depend on the order
// of operations: a grant has the key of its message, and the sender looks for the key. A board has some records for
// every receiver. Only that receiver writes them. The `state` word of a record is 0 or a generation that is never used
// twice, so a reader can detect a change:
//   publish:  store the body, signal state := generation
//   read:     load state, the body, and state again
//   withdraw: signal state := 0
// If no record in the probe window of a key is free, the receiver tries again later; meanwhile it holds no resource
// that others wait for.
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
  uint64_t credit;  // chunks that the receiver has consumed
};
static_assert(sizeof(GrantRecord) == 64);

class GrantBoard {
 public:
  // Bytes of symmetric memory that a board takes on every PE.
  static size_t Bytes(int n_pes);
  // The first record in which a grant of this key may be.
  static int Home(const MessageKey& key);
  // `offset`: of Bytes() that are allocated in every heap.
  GrantBoard(const shm::Heap* heap, size_t offset, int pe);

  // Receiver: publishes `grant` on the board of `sender`; sets its state. Returns the record number, or -1 if no record
  // is free.
  int Publish(int sender, const GrantRecord& grant);
  void Withdraw(int sender, int record);
  // Tells the sender of a published grant how many chunks have been consumed.
  void Credit(int sender, int record, uint64_t consumed);

  // Sender: finds the grant that `receiver` has published for `key`, copies it and returns the local record; nullptr if
  // there is none.
  GrantRecord* Find(int receiver, const MessageKey& key, GrantRecord* grant) const;

 private:
  // For each receiver: the number of operations that may wait for one sender at a time. XLA:CPU issues every collective
  // whose inputs are ready, so a step with hundreds of uncombined gradients needs hundreds.
  static constexpr int kRecords = 1024;
  static constexpr int kWindow = 16;  // the number of records in which a key may be
  // The grants of `receiver` on the board of `sender`.
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
