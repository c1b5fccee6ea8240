// The symmetric arena of a PE: lanes for the collectives of groups, then rings for permutes.
#ifndef XLA_SHMEM_THUNKS_GPU_ARENA_LAYOUT_H_
#define XLA_SHMEM_THUNKS_GPU_ARENA_LAYOUT_H_

#include <cstddef>

#include "xla_patch/thunks/gpu/lane_layout.h"
#include "xla_patch/thunks/gpu/pair_rings.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

struct ArenaLayout {
  LaneLayout lanes;  // from the start of the arena
  PairLayout pairs;
  size_t pairs_offset = 0;

  // Error if `bytes` are too little. `multimem`, `most_lanes`, `packet_bytes`: as of LaneLayout.
  static Result<ArenaLayout> Create(int n_pes, size_t bytes, bool multimem = false,
                                    int most_lanes = LaneLayout::kMaxLanes,
                                    size_t packet_bytes = kPacketBytesOverNvlink);
  static size_t RecommendedBytes(int n_pes, bool multimem = false);
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_ARENA_LAYOUT_H_
