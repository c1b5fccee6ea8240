// Blocks: the slots through which a PE receives messages.
#ifndef XLA_SHMEM_THUNKS_CPU_BLOCKS_H_
#define XLA_SHMEM_THUNKS_CPU_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_patch/thunks/cpu/pe_context.h"
#include "xla_patch/thunks/cpu/slot_pool.h"

namespace xla_shmem {

// The slots of a block.
struct Geometry {
  size_t slot_bytes;
  uint32_t num_slots;
};

// The blocks of one operation of a receiver, all of one geometry.
struct BlockSet {
  Geometry geometry;
  SlotPool* pool = nullptr;
  std::vector<char*> blocks;
};

// The slot size of large messages: large enough to amortise a handshake, small enough that a few slots stay in the L2
// cache, where the receiver finds the bytes that the sender has just written. 128 KiB was the best of 64, 128 and 256
// with two and four processes (runtime_benchmark, 4 to 64 MiB). Less one line, so that a block of four slots and its
// signal fills a power of two (slot_pool.h).
inline constexpr size_t kSlotBytes = (128 << 10) - 64;
inline constexpr uint32_t kSlotsInFlight = 4;
// For an operation with one message in an oversubscribed job. A PE then copies four times as much before it yields the
// core: a permute of 1 to 16 MiB by four processes on two cores takes 13 to 42 % less. Operations with several messages
// were not faster with it (docs/performance.md).
inline constexpr uint32_t kOversubscribedSlotsInFlight = 16;
// The signal of a block has its own cache line, before the slots.
inline constexpr size_t kSignalLine = 64;

// Takes `count` blocks for messages of `payload` padded bytes each, of the preferred geometry or of a smaller one if
// the arena is nearly exhausted (docs/protocol.md, "No deadlock"). False if even the smallest are exhausted: call again
// later.
bool TakeBlocks(const PeContext& context, size_t payload, size_t count, BlockSet* set);
void ReturnBlocks(const BlockSet& set);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_BLOCKS_H_
