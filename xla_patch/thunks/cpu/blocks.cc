#include "xla_patch/thunks/cpu/blocks.h"

#include <algorithm>

#include "xla_patch/thunks/chunks.h"

namespace xla_shmem {
namespace {

// With their signals these fill powers of two too (kSlotBytes).
constexpr Geometry kSmall{(64 << 10) - kSignalLine, 1};
constexpr Geometry kSmallest{(4 << 10) - kSignalLine, 1};
// Messages up to this size are one chunk: for them the overlap of the two copies gains less than it costs.
constexpr size_t kMinSlotBytes = 16 << 10;

Geometry Preferred(size_t payload, uint32_t in_flight) {
  const size_t padded = std::max(AlignedPiece(payload), kPieceAlignment);
  if (padded <= kMinSlotBytes) return {padded, 1};
  const size_t slot =
      std::clamp(AlignedPiece((padded + kSlotsInFlight - 1) / kSlotsInFlight), kMinSlotBytes, kSlotBytes);
  return {slot, static_cast<uint32_t>(std::min<size_t>((padded + slot - 1) / slot, in_flight))};
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
  if (context.is_oversubscribed && count == 1 &&
      TakeFrom(context.slots, Preferred(payload, kOversubscribedSlotsInFlight), count, set)) {
    return true;
  }
  const Geometry preferred = Preferred(payload, kSlotsInFlight);
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

}  // namespace xla_shmem
