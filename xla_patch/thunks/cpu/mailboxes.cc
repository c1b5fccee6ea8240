#include "xla_patch/thunks/cpu/mailboxes.h"

#include <algorithm>

#include "xla_patch/thunks/chunks.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {

size_t Mailboxes::EagerBytes(size_t heap_bytes, int n_pes) {
  // Most messages in XLA's loops are smaller. All rows together take at most an eighth of the heap.
  constexpr size_t kMax = 8 << 10, kMin = 256;
  const size_t share = heap_bytes / 8 / static_cast<size_t>(n_pes) / kEntries;
  return std::clamp(share / kPieceAlignment * kPieceAlignment, kMin, kMax);
}

size_t Mailboxes::RowBytes(size_t eager_bytes) {
  return sizeof(RowHeader) + kEntries * (sizeof(MailboxEntry) + eager_bytes);
}

size_t Mailboxes::Bytes(size_t eager_bytes, int n_pes) { return RowBytes(eager_bytes) * static_cast<size_t>(n_pes); }

Mailboxes::Mailboxes(const shm::Heap* heap, size_t offset, size_t eager_bytes, int pe)
    : heap_(heap),
      offset_(offset),
      eager_bytes_(eager_bytes),
      row_bytes_(RowBytes(eager_bytes)),
      pe_(pe),
      claimed_(new std::atomic<bool>[static_cast<size_t>(heap->n_pes()) * kEntries]()) {}

int Mailboxes::Home(const MessageKey& key) { return static_cast<int>((key.operation * 0x9e3779b97f4a7c15ull) >> 58); }

Mailbox Mailboxes::MailboxOf(RowHeader* row, int number) const {
  char* entries = reinterpret_cast<char*>(row) + sizeof(RowHeader);
  char* data = entries + kEntries * sizeof(MailboxEntry) + static_cast<size_t>(number) * eager_bytes_;
  return {reinterpret_cast<MailboxEntry*>(entries) + number, data, number, 0};
}

Mailbox Mailboxes::Claim(int receiver, const MessageKey& key) {
  RowHeader* row = Row(receiver, pe_);
  std::atomic<bool>* claimed = &claimed_[static_cast<size_t>(receiver) * kEntries];
  const int home = Home(key);
  for (int probe = 0; probe < kWindow; ++probe) {
    const int number = (home + probe) % kEntries;
    const Mailbox mailbox = MailboxOf(row, number);
    __builtin_prefetch(mailbox.entry, 1);  // fetches the receiver's line once, for reads and writes
    if (mailbox.entry->state.load(std::memory_order_relaxed) != 0) continue;
    if (claimed[number].exchange(true, std::memory_order_acquire)) continue;
    // Another thread may have posted it between the load and the exchange.
    if (mailbox.entry->state.load(std::memory_order_acquire) == 0) return mailbox;
    claimed[number].store(false, std::memory_order_release);
  }
  return {};
}

void Mailboxes::Post(int receiver, const Mailbox& mailbox, const MessageKey& key, size_t bytes, size_t ready,
                     MailboxProtocol protocol, int64_t began) {
  MailboxEntry& entry = *mailbox.entry;
  XLA_SHMEM_INVARIANT(entry.state.load(std::memory_order_relaxed), ==, uint64_t{0});
  XLA_SHMEM_INVARIANT(ready, <=, bytes);
  if (protocol == MailboxProtocol::kEager) XLA_SHMEM_INVARIANT(bytes, <=, eager_bytes_);
  // Release, so that a reader that sees any new field no longer sees the old `state`.
  entry.operation.store(key.operation, std::memory_order_release);
  entry.execution.store(key.execution, std::memory_order_release);
  entry.bytes.store(bytes, std::memory_order_release);
  entry.ready.store(ready, std::memory_order_release);
  if (protocol == MailboxProtocol::kCrossMemoryRead) {
    entry.began.store(began, std::memory_order_release);
    entry.taken.store(0, std::memory_order_release);
  }
  const uint64_t number = posted_.fetch_add(1, std::memory_order_relaxed) + 1;
  entry.state.store(number << 2 | static_cast<uint64_t>(protocol), std::memory_order_release);
  claimed_[static_cast<size_t>(receiver) * kEntries + mailbox.number].store(false, std::memory_order_release);
  Ring(heap_->BellOf(receiver));
}

bool Mailboxes::HasFreeMailbox(int receiver, const MessageKey& key) const {
  RowHeader* row = Row(receiver, pe_);
  for (int probe = 0; probe < kWindow; ++probe) {
    if (MailboxOf(row, (Home(key) + probe) % kEntries).entry->state.load(std::memory_order_relaxed) == 0) return true;
  }
  return false;
}

Mailbox Mailboxes::Find(int sender, const MessageKey& key, size_t bytes, MailboxProtocol* protocol) const {
  RowHeader* row = Row(pe_, sender);
  const int home = Home(key);
  for (int probe = 0; probe < kWindow; ++probe) {
    Mailbox mailbox = MailboxOf(row, (home + probe) % kEntries);
    const MailboxEntry& entry = *mailbox.entry;
    const uint64_t state = entry.state.load(std::memory_order_acquire);
    if (state == 0 || state == kRevoked) continue;
    const MessageKey found{entry.operation.load(std::memory_order_acquire),
                           entry.execution.load(std::memory_order_acquire)};
    const bool fits = entry.bytes.load(std::memory_order_acquire) == bytes;
    // Loads `state` again, because the entry may have been freed and posted again meanwhile.
    if (!(found == key) || !fits || entry.state.load(std::memory_order_acquire) != state) continue;
    *protocol = static_cast<MailboxProtocol>(state & 3);
    mailbox.state = state;
    return mailbox;
  }
  return {};
}

}  // namespace xla_shmem
