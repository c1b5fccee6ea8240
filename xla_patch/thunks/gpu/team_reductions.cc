#include "xla_patch/thunks/gpu/team_reductions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "xla_patch/nvshmem/gpu_reductions.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/types/element_type.h"

namespace xla_shmem::gpu {

namespace {

ReduceOnStream ReductionOf(const TeamReductions& reductions, ElementType type, ReductionKind kind) {
  const std::optional<GpuReduction> reduction = FindGpuReduction(type, kind);
  return reduction.has_value() ? reductions.api->reduce_on_stream[reduction->type][reduction->kind] : nullptr;
}

}  // namespace

bool CanRunOnTeam(const TeamReductions& reductions, const GroupArguments& group) {
  if (reductions.api == nullptr || group.op != CollectiveOp::kAllReduce) return false;
  if (reductions.teams->Find(group.group) == kTeamInvalid) return false;
  return std::all_of(group.types.begin(), group.types.end(),
                     [&](ElementType type) { return ReductionOf(reductions, type, group.reduction) != nullptr; });
}

void EnqueueOnTeam(Device& device, const TeamReductions& reductions, const GroupArguments& all_reduce,
                   CudaStream stream) {
  const TeamHandle team = reductions.teams->Find(all_reduce.group);
  const size_t half = reductions.staging_bytes / 2;
  char* operands = reductions.staging;
  char* results = operands + half;
  const std::vector<ByteRange> whole = WholeBuffers(all_reduce.buffers.bytes);
  ChunkCursor cursor(&whole, half);
  for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
    for (const Piece& piece : pieces) {
      const ElementType type = all_reduce.types[piece.buffer];
      device.Copy(operands + piece.slot_offset, all_reduce.buffers.operands[piece.buffer] + piece.buffer_offset,
                  piece.bytes, stream);
      device.CheckShmem(ReductionOf(reductions, type, all_reduce.reduction)(team, results + piece.slot_offset,
                                                                            operands + piece.slot_offset,
                                                                            piece.bytes / ElementBytes(type), stream),
                        "reduce_on_stream");
      device.Copy(all_reduce.buffers.results[piece.buffer] + piece.buffer_offset, results + piece.slot_offset,
                  piece.bytes, stream);
    }
  }
}

}  // namespace xla_shmem::gpu
