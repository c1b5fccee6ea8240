#include "xla_patch/thunks/cpu/reduce_scatter.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

bool Read(const CallFrame& frame, ReduceScatterArguments* reduce_scatter, std::string* error) {
  return TakeGroup(frame, &reduce_scatter->group, error) &&
         TakeTerms(frame, reduce_scatter->group.size(), reduce_scatter, error);
}

const CpuHandlerRegistration registration(
    MakeCpuHandler<CollectiveOp::kReduceScatter, ReduceScatterOperation, ReduceScatterArguments, Read>());

}  // namespace
}  // namespace xla_shmem
