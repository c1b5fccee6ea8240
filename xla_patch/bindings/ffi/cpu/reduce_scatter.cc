#include "xla_patch/thunks/cpu/reduce_scatter.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

Status Read(const CallFrame& frame, ReduceScatterArguments* reduce_scatter) {
  Result<std::vector<int>> group = OwnGroup(frame);
  if (!group.ok()) return group.status();
  reduce_scatter->group = *std::move(group);
  return TakeTerms(frame, reduce_scatter->group.size(), reduce_scatter);
}

const CpuHandlerRegistration cpu_reduce_scatter(
    MakeCpuHandler<CollectiveOp::kReduceScatter, ReduceScatterArguments, Read>());

}  // namespace
}  // namespace xla_shmem
