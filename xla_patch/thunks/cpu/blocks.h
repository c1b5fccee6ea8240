// Blocks: the slots in which a PE lets messages be staged.
#ifndef XLA_SHMEM_THUNKS_CPU_BLOCKS_H_
#define XLA_SHMEM_THUNKS_CPU_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/thunks/cpu/slot_pool.h"

namespace xla_shmem {

// Slots of a receiver's block.
struct Geometry {
  size_t slot_bytes;
  uint32_t num_slots;
};

// A receiver's blocks for one operation, all of one geometry.
struct BlockSet {
  Geometry geometry;
  SlotPool* pool = nullptr;
  std::vector<char*> blocks;
};

// Slots of a large message: big enough to amortise a handshake, small enough that a few of them stay in the L2 cache,
// so the receiver's copy reads what the sender's has just written: 128 KiB did best of 64, 128 and 256 with two and
// four processes (runtime_benchmark, 4 to 64 MiB). Less one line: a block of four such slots and its signal then fills
// a power of two (slot_pool.h).
inline constexpr size_t kSlotBytes = (128 << 10) - 64;
inline constexpr uint32_t kSlotsInFlight = 4;
// Of an operation with one message, where its two ends share a core: each turn of a PE on it then moves four times as
// much, and a permute of 1 to 16 MiB by four processes on two cores takes 13 to 42 % less. Operations with several
// messages were not faster for it (docs/performance.md).
inline constexpr uint32_t kOversubscribedSlotsInFlight = 16;
// The signal of a block has a cache line of its own, in front of the slots.
inline constexpr size_t kSignalLine = 64;

// Takes `count` blocks for messages of `payload` padded bytes each: the preferred geometry, or smaller ones while the
// arena is nearly used up (docs/protocol.md, "No deadlock"). False if not even the smallest is to be had: call again
// later.
bool TakeBlocks(const PeContext& context, size_t payload, size_t count, BlockSet* set);
void ReturnBlocks(const BlockSet& set);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_BLOCKS_H_
