#include "xla_patch/thunks/cpu/all_gather.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

Status Read(const CallFrame& frame, AllGatherArguments* all_gather) {
  Result<std::vector<int>> group = OwnGroup(frame);
  if (!group.ok()) return group.status();
  all_gather->group = *std::move(group);
  return TakeBytes(frame, all_gather->group.size(), all_gather);
}

const CpuHandlerRegistration cpu_all_gather(MakeCpuHandler<CollectiveOp::kAllGather, AllGatherArguments, Read>());

}  // namespace
}  // namespace xla_shmem
