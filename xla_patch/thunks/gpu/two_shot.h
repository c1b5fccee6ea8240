// The order of a two-shot all-reduce: reduce-scatter, then all-gather, in chunks (docs/protocol.md, "All-reduce").
#ifndef XLA_SHMEM_THUNKS_GPU_TWO_SHOT_H_
#define XLA_SHMEM_THUNKS_GPU_TWO_SHOT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "xla_patch/thunks/chunks.h"

namespace xla_shmem::gpu {

struct TwoShotGeometry {
  int members;
  int my_index;
  size_t slot_bytes;   // of every channel of the group
  uint32_t num_slots;  // likewise, at least 3
};

struct TwoShotActions {
  // Put this PE's data of a chunk that `owner` reduces.
  std::function<void(int owner, const std::vector<Piece>& pieces)> contribute;
  // Reduce a chunk that this PE owns, and put the result to all others.
  std::function<void(const std::vector<Piece>& pieces)> reduce_and_share;
  // Collect a chunk that `owner` has reduced.
  std::function<void(int owner, const std::vector<Piece>& pieces)> collect;
};

// Calls the actions for buffers of these sizes in the order that all members follow. Members exchange no plan, because
// each can compute the chunks of all.
void RunTwoShot(const std::vector<size_t>& buffer_bytes, const TwoShotGeometry& geometry,
                const TwoShotActions& actions);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_TWO_SHOT_H_
