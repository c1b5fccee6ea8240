// Mailboxes: for messages that a sender can post without a grant of their receiver (docs/protocol.md, "Mailboxes").
//
// Every PE has a row of mailboxes for each other PE, in its own heap. A sender that finds a free one posts a small
// message (eager) or the addresses of a large one, for a receiver that reads the sender's memory (rendezvous with a
// cross-memory read). A mailbox has the key of its message, so the order in which the receiver reaches its operations
// does not matter. A sender that finds none free waits for a grant (grant_board.h), so mailboxes of operations that the
// receiver has not reached block no other operation.
//
//   eager:             free -> posted by the sender -> freed by the receiver when it has used the bytes
//   cross-memory read: free -> posted by the sender -> freed by the sender when the receiver has read all,
//                      or, between PEs of one process, revoked by the sender -> freed by it when nobody reads
#ifndef XLA_SHMEM_THUNKS_CPU_MAILBOXES_H_
#define XLA_SHMEM_THUNKS_CPU_MAILBOXES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "xla_patch/shm/cross_memory_reader.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/thunks/cpu/message_key.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {

enum class MailboxProtocol : uint64_t { kEager = 1, kCrossMemoryRead = 2 };

struct MailboxEntry {
  // The sender's line. `state` is 0 if free, kRevoked, or a number that is never used twice, with the protocol in its
  // low bits.
  alignas(64) std::atomic<uint64_t> state;
  std::atomic<uint64_t> operation, execution, bytes;
  std::atomic<uint64_t> ready;  // cross-memory read: positions that may be read
  std::atomic<int64_t> began;   // cross-memory read: when the sender reached the operation; 0 if it did not look
  // The receiver's line.
  alignas(64) std::atomic<uint64_t> taken;  // cross-memory read: positions that it has read, or kRefused
  std::atomic<uint32_t> reading;            // cross-memory read: its threads that read
};
static_assert(sizeof(MailboxEntry) == 128);

// The receiver cannot read the sender's memory after all: the message has to go through slots.
inline constexpr uint64_t kRefused = ~uint64_t{0};

// A `state` without a protocol: the sender has taken its message back and waits for a reader of the mailbox.
inline constexpr uint64_t kRevoked = 4;

// A mailbox: its entry and its bytes.
struct Mailbox {
  MailboxEntry* entry = nullptr;
  char* data = nullptr;
  int number = 0;
  uint64_t state = 0;  // in which Find has seen it
};

class Mailboxes {
 public:
  // The largest eager message in a job with heaps of `heap_bytes` a PE: a multiple of 64, equal on all PEs.
  static size_t EagerBytes(size_t heap_bytes, int n_pes);
  // Bytes of symmetric memory that the mailboxes take on every PE.
  static size_t Bytes(size_t eager_bytes, int n_pes);

  // The first mailbox in which a message of this key may be.
  static int Home(const MessageKey& key);

  // `offset`: of Bytes() that are allocated in every heap.
  Mailboxes(const shm::Heap* heap, size_t offset, size_t eager_bytes, int pe);

  size_t eager_bytes() const { return eager_bytes_; }

  // Sender. Claim takes a free mailbox at `receiver`; its `entry` is null if none is free. Post makes it visible and
  // wakes the receiver. Free frees it after the receiver has read all.
  Mailbox Claim(int receiver, const MessageKey& key);
  void Post(int receiver, const Mailbox& mailbox, const MessageKey& key, size_t bytes, size_t ready,
            MailboxProtocol protocol, int64_t began = 0);
  void Free(const Mailbox& mailbox) { mailbox.entry->state.store(0, std::memory_order_release); }
  bool HasFreeMailbox(int receiver, const MessageKey& key) const;

  // Receiver. Find returns the mailbox with the message of this key and size; its `entry` is null if there is none.
  // Release frees it after an eager message.
  Mailbox Find(int sender, const MessageKey& key, size_t bytes, MailboxProtocol* protocol) const;
  void Release(const Mailbox& mailbox) {
    XLA_SHMEM_INVARIANT(mailbox.entry->state.load(std::memory_order_relaxed), ==, mailbox.state);
    mailbox.entry->state.store(0, std::memory_order_release);
  }

  // Whether `receiver` has advertised that it reads the memory of this PE, and the advertisement of this PE to
  // `sender`.
  bool IsReadBy(int receiver) const { return Row(receiver, pe_)->reads_sender.load(std::memory_order_acquire); }
  void AdvertiseDirectReads(int sender, bool reads) {
    Row(pe_, sender)->reads_sender.store(reads, std::memory_order_release);
  }

 private:
  static constexpr int kEntries = 64;
  // A key may be in this many mailboxes from its home on. The home depends on the operation alone, so that a loop finds
  // its mailboxes in the cache.
  static constexpr int kWindow = 8;

  struct RowHeader {
    alignas(64) std::atomic<bool> reads_sender;
  };
  static size_t RowBytes(size_t eager_bytes);
  RowHeader* Row(int receiver, int sender) const {
    return reinterpret_cast<RowHeader*>(heap_->base(receiver) + offset_ + static_cast<size_t>(sender) * row_bytes_);
  }
  Mailbox MailboxOf(RowHeader* row, int number) const;

  const shm::Heap* const heap_;
  const size_t offset_;
  const size_t eager_bytes_;
  const size_t row_bytes_;
  const int pe_;
  std::unique_ptr<std::atomic<bool>[]> claimed_;  // [receiver][entry]: a thread of this PE fills it
  std::atomic<uint64_t> posted_{0};
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MAILBOXES_H_
