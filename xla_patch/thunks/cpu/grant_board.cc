#include "xla_patch/thunks/cpu/grant_board.h"

#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

uint64_t Load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
uint32_t Load(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

// Release, so that a reader that sees any new field also sees the `state := 0` before it.
template <typename T>
void Store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

}  // namespace

size_t GrantBoard::Bytes(int n_pes) { return sizeof(GrantRecord) * kRecords * static_cast<size_t>(n_pes); }

GrantBoard::GrantBoard(const shm::Heap* heap, size_t offset, int pe)
    : heap_(heap),
      offset_(offset),
      pe_(pe),
      used_(new std::atomic<bool>[static_cast<size_t>(heap->n_pes()) * kRecords]()) {}

int GrantBoard::Home(const MessageKey& key) {
  uint64_t hash = key.operation ^ (key.execution * 0x9e3779b97f4a7c15ull);  // golden-ratio multiplier, as in splitmix64
  hash ^= hash >> 29;
  return static_cast<int>((hash * 0xbf58476d1ce4e5b9ull >> 32) % kRecords);
}

int GrantBoard::Publish(int sender, const GrantRecord& grant) {
  const int home = Home(grant.key);
  std::atomic<bool>* used = &used_[static_cast<size_t>(sender) * kRecords];
  for (int probe = 0; probe < kWindow; ++probe) {
    const int record = (home + probe) % kRecords;
    if (used[record].load(std::memory_order_relaxed) || used[record].exchange(true, std::memory_order_acquire)) {
      continue;
    }
    GrantRecord* remote = &Row(sender, pe_)[record];
    XLA_SHMEM_INVARIANT(Load(remote->state), ==, uint64_t{0});
    Store(remote->key.operation, grant.key.operation);
    Store(remote->key.execution, grant.key.execution);
    Store(remote->block_offset, grant.block_offset);
    Store(remote->slot_bytes, grant.slot_bytes);
    Store(remote->num_slots, grant.num_slots);
    Store(remote->credit, grant.credit);
    const uint64_t generation = generation_.fetch_add(1, std::memory_order_relaxed) + 1;
    Store(remote->state, generation);
    Ring(heap_->BellOf(sender));
    return record;
  }
  return -1;
}

void GrantBoard::Withdraw(int sender, int record) {
  XLA_SHMEM_INVARIANT(used_[static_cast<size_t>(sender) * kRecords + record].load(std::memory_order_relaxed), ==, true);
  Store(Row(sender, pe_)[record].state, uint64_t{0});
  used_[static_cast<size_t>(sender) * kRecords + record].store(false, std::memory_order_release);
}

void GrantBoard::Credit(int sender, int record, uint64_t consumed) {
  XLA_SHMEM_INVARIANT(Load(Row(sender, pe_)[record].credit), <, consumed);
  Store(Row(sender, pe_)[record].credit, consumed);
  Ring(heap_->BellOf(sender));
}

GrantRecord* GrantBoard::Find(int receiver, const MessageKey& key, GrantRecord* grant) const {
  const int home = Home(key);
  for (int probe = 0; probe < kWindow; ++probe) {
    GrantRecord* record = &Row(pe_, receiver)[(home + probe) % kRecords];
    const uint64_t generation = Load(record->state);
    if (generation == 0) continue;
    grant->state = generation;
    grant->key = {Load(record->key.operation), Load(record->key.execution)};
    grant->block_offset = Load(record->block_offset);
    grant->slot_bytes = Load(record->slot_bytes);
    grant->num_slots = Load(record->num_slots);
    grant->credit = Load(record->credit);
    if (Load(record->state) == generation && grant->key == key) return record;
  }
  return nullptr;
}

}  // namespace xla_shmem
