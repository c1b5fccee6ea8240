#include "xla_patch/thunks/channel.h"

#include <algorithm>

namespace xla_shmem {
namespace {

constexpr size_t kSignalLine = 64;  // the signal has a cache line of its own

constexpr Geometry kSmall{64 << 10, 1};
constexpr Geometry kSmallest{4 << 10, 1};

uint64_t Load(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

Geometry Preferred(size_t payload) {
  const size_t padded =
      std::max<size_t>((payload + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment, kPieceAlignment);
  if (padded <= kSlotBytes) return {padded, 1};
  const size_t chunks = (padded + kSlotBytes - 1) / kSlotBytes;
  return {kSlotBytes, static_cast<uint32_t>(std::min<size_t>(chunks, kSlotsInFlight))};
}

size_t BlockBytes(const Geometry& geometry) { return kSignalLine + geometry.slot_bytes * geometry.num_slots; }

bool TakeFrom(SlotPool* pool, const Geometry& geometry, size_t count, BlockSet* set) {
  set->geometry = geometry;
  set->pool = pool;
  while (set->blocks.size() < count) {
    char* block = pool->Take(BlockBytes(geometry));
    if (block == nullptr) {
      ReturnBlocks(*set);
      set->blocks.clear();
      return false;
    }
    set->blocks.push_back(block);
  }
  return true;
}

}  // namespace

bool TakeBlocks(const PeContext& context, size_t payload, size_t count, BlockSet* set) {
  const Geometry preferred = Preferred(payload);
  if (TakeFrom(context.slots, preferred, count, set)) return true;
  if (preferred.slot_bytes * preferred.num_slots > kSmall.slot_bytes && TakeFrom(context.slots, kSmall, count, set)) {
    return true;
  }
  const Geometry last = preferred.slot_bytes < kSmallest.slot_bytes ? preferred : kSmallest;
  return TakeFrom(context.reserve, last, count, set);
}

void ReturnBlocks(const BlockSet& set) {
  for (char* block : set.blocks) set.pool->Return(block, BlockBytes(set.geometry));
}

bool ReceiveChannel::Open(const PeContext& context, int sender, const MessageKey& key, char* block,
                          const Geometry& geometry, StreamHandle stream) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(block), 0, __ATOMIC_RELEASE);
  GrantRecord grant{};
  grant.key = key;
  grant.block_offset = static_cast<uint64_t>(block - context.heap);
  grant.slot_bytes = static_cast<uint32_t>(geometry.slot_bytes);
  grant.num_slots = geometry.num_slots;
  record_ = context.board->Publish(sender, grant, stream);
  if (record_ < 0) return false;
  sender_ = sender;
  block_ = block;
  geometry_ = geometry;
  return true;
}

const char* ReceiveChannel::EnqueueArrival(const PeContext& context, StreamHandle stream) {
  const uint64_t message = expected_++;
  context.api->shmem.signal_wait_until_on_stream(arrived(), kCmpGe, message + 1, stream);
  return block_ + kSignalLine + message % geometry_.num_slots * geometry_.slot_bytes;
}

void ReceiveChannel::EnqueueCredit(const PeContext& context, StreamHandle stream) {
  context.api->shmem.signal_op_on_stream(context.board->CreditWord(record_), expected_, kSignalSet, sender_, stream);
}

void ReceiveChannel::Close(const PeContext& context, StreamHandle stream) {
  context.board->Withdraw(sender_, record_, stream);
  block_ = nullptr;
}

bool ReceiveChannel::Waiting() const { return block_ != nullptr && Load(arrived()) < expected_; }

std::string ReceiveChannel::Counters() const {
  return "PE " + std::to_string(sender_) + " has put " + std::to_string(Load(arrived())) + " of " +
         std::to_string(expected_) + " messages into slots of " + std::to_string(geometry_.slot_bytes) + " bytes";
}

bool SendChannel::Open(const PeContext& context, int receiver, const MessageKey& key) {
  GrantRecord grant;
  GrantRecord* record = context.board->Find(receiver, key, &grant);
  if (record == nullptr) return false;
  receiver_ = receiver;
  block_ = context.heap + grant.block_offset;
  state_ = &record->state;
  generation_ = grant.state;
  credit_ = &record->credit;
  geometry_ = {grant.slot_bytes, grant.num_slots};
  return true;
}

void SendChannel::EnqueueMessage(const PeContext& context, const std::vector<const char*>& buffers,
                                 const std::vector<Piece>& pieces, StreamHandle stream) {
  const NvshmemApi& shmem = context.api->shmem;
  const uint64_t message = sent_++;
  if (message >= geometry_.num_slots) {
    shmem.signal_wait_until_on_stream(credit_, kCmpGe, message - geometry_.num_slots + 1, stream);
  }
  char* slot = block_ + kSignalLine + message % geometry_.num_slots * geometry_.slot_bytes;
  for (const Piece& piece : pieces) {
    shmem.putmem_on_stream(slot + piece.slot_offset, buffers[piece.buffer] + piece.buffer_offset, piece.bytes,
                           receiver_, stream);
  }
  shmem.signal_op_on_stream(reinterpret_cast<uint64_t*>(block_), message + 1, kSignalSet, receiver_, stream);
}

bool SendChannel::Waiting() const {
  if (credit_ == nullptr || sent_ <= geometry_.num_slots) return false;
  // In this order: a credit that is reset for the next channel comes with a new state.
  return Load(credit_) + geometry_.num_slots < sent_ && Load(state_) == generation_;
}

std::string SendChannel::Counters() const {
  return "PE " + std::to_string(receiver_) + " has consumed " + std::to_string(Load(credit_)) + " of " +
         std::to_string(sent_) + " messages in " + std::to_string(geometry_.num_slots) + " slots";
}

}  // namespace xla_shmem
