// Mailboxes: messages that need no word from their receiver before they are sent (docs/protocol.md, "Mailboxes").
//
// Every PE has a row of entries for each other PE, in its own heap. A sender that finds a free entry puts into it the
// whole of a small message (eager), or where the bytes of a large one lie, for a receiver that can read the sender's
// memory (direct). An entry bears the key of its message, so it does not matter in which order the receiver comes to
// its operations. A sender that finds none free waits for a grant (grant_board.h): entries held by operations that the
// receiver has not come to keep nobody from going on.
//
//   eager:  free -> posted by the sender -> free, by the receiver when it has used the bytes
//   direct: free -> posted by the sender -> free, by the sender when the receiver has taken all
#ifndef XLA_SHMEM_THUNKS_CPU_MAILBOXES_H_
#define XLA_SHMEM_THUNKS_CPU_MAILBOXES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "xla_patch/shm/cross_memory_reader.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/thunks/cpu/message_key.h"

namespace xla_shmem {

enum class MailKind : uint64_t { kEager = 1, kCrossMemoryRead = 2 };

struct MailEntry {
  // The sender's line. `state` is 0 when free, else a number that is never used twice, with the kind in its low bits.
  alignas(64) std::atomic<uint64_t> state;
  std::atomic<uint64_t> operation, execution, bytes;
  std::atomic<uint64_t> ready;  // direct: positions that may be read
  // The receiver's line.
  alignas(64) std::atomic<uint64_t> taken;  // direct: positions it has read, or kRefused
  std::atomic<uint32_t> reading;            // direct: 1 while it reads
};
static_assert(sizeof(MailEntry) == 128);

// The receiver cannot read the sender's memory after all: the message has to be sent another way.
inline constexpr uint64_t kRefused = ~uint64_t{0};

// An entry, and the bytes that go with it.
struct Mail {
  MailEntry* entry = nullptr;
  char* data = nullptr;
  int number = 0;
};

class Mailboxes {
 public:
  // Bytes of an eager message in a job with heaps of `heap_bytes` a PE: a multiple of 64, the same on all PEs.
  static size_t EagerBytes(size_t heap_bytes, int n_pes);
  // Symmetric memory they take on every PE.
  static size_t Bytes(size_t eager_bytes, int n_pes);

  // `offset` is where Bytes() have been allocated in every heap.
  Mailboxes(const shm::Heap* heap, size_t offset, size_t eager_bytes, int pe);

  size_t eager_bytes() const { return eager_bytes_; }

  // Sender. Claim takes a free entry at `receiver`, or none (`entry` null); Post makes it visible and wakes the
  // receiver; Free gives back one that the receiver is done with.
  Mail Claim(int receiver, const MessageKey& key);
  void Post(int receiver, const Mail& mail, const MessageKey& key, size_t bytes, size_t ready, MailKind kind);
  void Free(const Mail& mail) { mail.entry->state.store(0, std::memory_order_release); }
  bool HasRoom(int receiver, const MessageKey& key) const;

  // Receiver. The message of this key and size, if it is there.
  Mail Find(int sender, const MessageKey& key, size_t bytes, MailKind* kind) const;
  void Release(const Mail& mail) { mail.entry->state.store(0, std::memory_order_release); }

  // Whether `receiver` has said that it reads our memory, and the word of this PE to `sender`.
  bool ReadsDirectly(int receiver) const { return Row(receiver, pe_)->reads_directly.load(std::memory_order_acquire); }
  void AdvertiseDirectReads(int sender, bool reads) {
    Row(pe_, sender)->reads_directly.store(reads, std::memory_order_release);
  }

 private:
  // A key may lie in this many entries from its home on. Homes follow from the operation alone: a loop finds its
  // entries in the cache.
  static constexpr int kEntries = 64;
  static constexpr int kWindow = 8;

  struct RowHeader {
    alignas(64) std::atomic<bool> reads_directly;
  };
  static size_t RowBytes(size_t eager_bytes);
  static int Home(const MessageKey& key);

  RowHeader* Row(int receiver, int sender) const {
    return reinterpret_cast<RowHeader*>(heap_->base(receiver) + offset_ + static_cast<size_t>(sender) * row_bytes_);
  }
  Mail EntryOf(RowHeader* row, int number) const;

  const shm::Heap* const heap_;
  const size_t offset_;
  const size_t eager_bytes_;
  const size_t row_bytes_;
  const int pe_;
  std::unique_ptr<std::atomic<bool>[]> claimed_;  // [receiver][entry]: being filled by a thread of this PE
  std::atomic<uint64_t> posted_{0};
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MAILBOXES_H_
