#include "xla_patch/thunks/cpu/collective_permute.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

bool Read(const CallFrame& frame, PermuteArguments* permute, std::string* error) {
  const PePairs* pairs = nullptr;
  if (!TakePairs(frame, &pairs, error)) return false;
  const Neighbours neighbours = FindNeighbours(*pairs, frame.pe);
  permute->source = neighbours.source;
  permute->target = neighbours.target;
  return TakeBytes(frame, 1, permute, error);
}

const CpuHandlerRegistration registration(
    MakeCpuHandler<CollectiveOp::kCollectivePermute, PermuteOperation, PermuteArguments, Read>());

}  // namespace
}  // namespace xla_shmem
