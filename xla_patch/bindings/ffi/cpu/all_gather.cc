#include "xla_patch/thunks/cpu/all_gather.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

bool Read(const CallFrame& frame, AllGatherArguments* all_gather, std::string* error) {
  return TakeGroup(frame, &all_gather->group, error) && TakeBytes(frame, all_gather->group.size(), all_gather, error);
}

const CpuHandlerRegistration registration(
    MakeCpuHandler<CollectiveOp::kAllGather, AllGatherOperation, AllGatherArguments, Read>());

}  // namespace
}  // namespace xla_shmem
