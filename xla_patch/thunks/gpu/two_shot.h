// The order of a two-shot all-reduce (reduce-scatter, then all-gather, in chunks): the same on CPU and GPU.
#ifndef XLA_SHMEM_THUNKS_GPU_TWO_SHOT_H_
#define XLA_SHMEM_THUNKS_GPU_TWO_SHOT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "xla_patch/thunks/chunks.h"

namespace xla_shmem {

struct TwoShotGeometry {
  int members;
  int my_index;
  size_t slot_bytes;   // of every channel of the group
  uint32_t num_slots;  // likewise, at least 3
};

struct TwoShotActions {
  // Put our share of a chunk that `owner` reduces.
  std::function<void(int owner, const std::vector<Piece>& pieces)> contribute;
  // Reduce a chunk of our own, and put the result to everybody.
  std::function<void(const std::vector<Piece>& pieces)> reduce_and_share;
  // Collect a chunk that `owner` has reduced.
  std::function<void(int owner, const std::vector<Piece>& pieces)> collect;
};

// Calls the actions for buffers of these sizes in the order that all members follow. Nobody needs to be told anything:
// all members have all chunk lists.
void RunTwoShot(const std::vector<size_t>& buffer_bytes, const TwoShotGeometry& geometry,
                const TwoShotActions& actions);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_TWO_SHOT_H_
