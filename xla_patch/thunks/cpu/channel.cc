#include "xla_patch/thunks/cpu/channel.h"

#include "xla_patch/thunks/cpu/peer_operations.h"
#include "xla_patch/types/invariant.h"

namespace xla_shmem {
namespace {

uint64_t Load(const void* word) { return __atomic_load_n(static_cast<const uint64_t*>(word), __ATOMIC_ACQUIRE); }
// Of the time in the signal line.
constexpr size_t kBeganOffset = 8;

void Store(void* word, uint64_t value) { __atomic_store_n(static_cast<uint64_t*>(word), value, __ATOMIC_RELEASE); }

}  // namespace

bool ReceiveChannel::Open(const PeContext& context, int sender, const MessageKey& key, char* block,
                          const Geometry& geometry, size_t consumed) {
  XLA_SHMEM_INVARIANT(block_, ==, nullptr);
  XLA_SHMEM_INVARIANT(geometry.num_slots, >, 0U);
  Store(block, 0);
  Store(block + kBeganOffset, 0);
  GrantRecord grant{};
  grant.key = key;
  grant.block_offset = static_cast<uint64_t>(block - context.heap->base(context.pe));
  XLA_SHMEM_INVARIANT(grant.block_offset + kSignalLine + geometry.slot_bytes * geometry.num_slots, <=,
                      context.heap->bytes());
  grant.slot_bytes = static_cast<uint32_t>(geometry.slot_bytes);
  grant.num_slots = geometry.num_slots;
  grant.credit = consumed / geometry.slot_bytes;
  record_ = context.grant_board->Publish(sender, grant);
  if (record_ < 0) return false;
  sender_ = sender;
  block_ = block;
  geometry_ = geometry;
  return true;
}

uint64_t ReceiveChannel::Arrived() const { return Load(block_); }

int64_t ReceiveChannel::SenderBegan() const { return static_cast<int64_t>(Load(block_ + kBeganOffset)); }

const char* ReceiveChannel::Slot(uint64_t chunk) const {
  XLA_SHMEM_INVARIANT(chunk, <, Arrived());
  return block_ + kSignalLine + chunk % geometry_.num_slots * geometry_.slot_bytes;
}

void ReceiveChannel::Credit(const PeContext& context, uint64_t chunk) {
  XLA_SHMEM_INVARIANT(chunk, <=, Arrived());
  context.grant_board->Credit(sender_, record_, chunk);
}

void ReceiveChannel::Close(const PeContext& context) {
  XLA_SHMEM_INVARIANT(block_, !=, nullptr);
  context.grant_board->Withdraw(sender_, record_);
  block_ = nullptr;
}

bool SendChannel::Open(const PeContext& context, int receiver, const MessageKey& key) {
  GrantRecord grant;
  GrantRecord* record = context.grant_board->Find(receiver, context.peer_operations->KeyOf(receiver, key), &grant);
  if (record == nullptr) return false;
  receiver_ = receiver;
  block_ = context.heap->base(receiver) + grant.block_offset;
  credit_ = &record->credit;
  geometry_ = {grant.slot_bytes, grant.num_slots};
  sent_ = grant.credit;
  return true;
}

char* SendChannel::FreeSlot() const {
  if (sent_ >= geometry_.num_slots && Load(credit_) + geometry_.num_slots <= sent_) return nullptr;
  return block_ + kSignalLine + sent_ % geometry_.num_slots * geometry_.slot_bytes;
}

void SendChannel::SetBegan(int64_t began) { Store(block_ + kBeganOffset, static_cast<uint64_t>(began)); }

void SendChannel::Signal(const PeContext& context) {
  XLA_SHMEM_INVARIANT(block_, !=, nullptr);
  if (sent_ >= geometry_.num_slots) {
    // The receiver has given back the chunk that was in this slot before.
    XLA_SHMEM_INVARIANT(sent_ - geometry_.num_slots, <, Load(credit_));
  }
  Store(block_, ++sent_);
  Ring(context.heap->BellOf(receiver_));
}

}  // namespace xla_shmem
