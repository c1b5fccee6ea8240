#include "xla_patch/thunks/gpu/team_reductions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "xla_patch/nvshmem/gpu_reductions.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/types/element_type.h"

namespace xla_shmem::gpu {

bool EnqueueOnTeam(Device& device, const TeamReductions& reductions, const AllReduceArguments& all_reduce,
                   CudaStream stream) {
  if (reductions.api == nullptr) return false;
  const TeamHandle team = reductions.teams->Find(all_reduce.group);
  const auto reduce_of = [&](ElementType type) {
    const std::optional<GpuReduction> reduction = FindGpuReduction(type, all_reduce.reduction);
    return reduction.has_value() ? reductions.api->reduce_on_stream[reduction->type][reduction->kind] : nullptr;
  };
  const auto& types = all_reduce.types;
  if (team == kTeamInvalid || !std::all_of(types.begin(), types.end(), reduce_of)) return false;
  const size_t half = reductions.staging_bytes / 2;
  char* operands = reductions.staging;
  char* results = operands + half;
  const std::vector<ByteRange> whole = WholeBuffers(all_reduce.buffers.bytes);
  ChunkCursor cursor(&whole, half);
  for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
    for (const Piece& piece : pieces) {
      const ElementType type = types[piece.buffer];
      device.Copy(operands + piece.slot_offset, all_reduce.buffers.operands[piece.buffer] + piece.buffer_offset,
                  piece.bytes, stream);
      device.CheckShmem(reduce_of(type)(team, results + piece.slot_offset, operands + piece.slot_offset,
                                        piece.bytes / ElementBytes(type), stream),
                        "reduce_on_stream");
      device.Copy(all_reduce.buffers.results[piece.buffer] + piece.buffer_offset, results + piece.slot_offset,
                  piece.bytes, stream);
    }
  }
  return true;
}

}  // namespace xla_shmem::gpu
