#include "xla_patch/thunks/cpu/collective_permute.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

Status Read(const CallFrame& frame, PermuteArguments* permute) {
  const Result<const PePairs*> pairs = PairsOf(frame);
  if (!pairs.ok()) return pairs.status();
  const Neighbours neighbours = FindNeighbours(**pairs, frame.pe);
  permute->source = neighbours.source;
  permute->target = neighbours.target;
  permute->pairs = **pairs;
  return TakeBytes(frame, 1, permute);
}

const CpuHandlerRegistration cpu_collective_permute(
    MakeCpuHandler<CollectiveOp::kCollectivePermute, PermuteArguments, Read>());

}  // namespace
}  // namespace xla_shmem
