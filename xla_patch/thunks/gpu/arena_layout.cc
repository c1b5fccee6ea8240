#include "xla_patch/thunks/gpu/arena_layout.h"

#include <algorithm>

namespace xla_shmem::gpu {

Result<ArenaLayout> ArenaLayout::Create(int n_pes, size_t bytes, bool multimem, int most_lanes, size_t packet_bytes) {
  // A small arena gives the lanes a third.
  const size_t most = std::min(bytes / 3, LaneLayout::RecommendedBytes(n_pes, multimem));
  const Result<LaneLayout> lanes = LaneLayout::Create(n_pes, most, multimem, most_lanes, packet_bytes);
  if (!lanes.ok()) return lanes.status();
  const Result<PairLayout> pairs = PairLayout::Create(n_pes, bytes - lanes->bytes());
  if (!pairs.ok()) return pairs.status();
  return ArenaLayout{*lanes, *pairs, lanes->bytes()};
}

size_t ArenaLayout::RecommendedBytes(int n_pes, bool multimem) {
  return LaneLayout::RecommendedBytes(n_pes, multimem) + PairLayout::RecommendedBytes(n_pes);
}

}  // namespace xla_shmem::gpu
