#include "xla_patch/thunks/cpu/all_reduce.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

Status Read(const CallFrame& frame, AllReduceArguments* all_reduce) {
  Result<std::vector<int>> group = OwnGroup(frame);
  if (!group.ok()) return group.status();
  all_reduce->group = *std::move(group);
  return TakeTerms(frame, 1, all_reduce);
}

const CpuHandlerRegistration cpu_all_reduce(MakeCpuHandler<CollectiveOp::kAllReduce, AllReduceArguments, Read>());

}  // namespace
}  // namespace xla_shmem
