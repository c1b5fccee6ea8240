#include "xla_patch/thunks/cpu/all_reduce.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

bool Read(const CallFrame& frame, AllReduceArguments* all_reduce, std::string* error) {
  return TakeGroup(frame, &all_reduce->group, error) && TakeTerms(frame, 1, all_reduce, error);
}

const CpuHandlerRegistration registration(
    MakeCpuHandler<CollectiveOp::kAllReduce, AllReduceOperation, AllReduceArguments, Read>());

}  // namespace
}  // namespace xla_shmem
