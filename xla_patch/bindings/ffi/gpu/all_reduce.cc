#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/handler.h"
#include "xla_patch/nvshmem/gpu_reductions.h"

namespace xla_shmem {
namespace {

bool IsReducible(ElementType type, ReductionKind reduction) { return FindGpuReduction(type, reduction).has_value(); }

Result<gpu::AllReduceArguments> Read(const GpuCallFrame& frame) {
  const Result<ReductionKind> reduction = ReadReduction(frame.attributes);
  if (!reduction.ok()) return reduction.status();
  const Result<PeGroups> groups = ReadGroups(frame.attributes);
  if (!groups.ok()) return groups.status();
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, 1, 1);
  if (!buffers.ok()) return buffers.status();
  XLA_SHMEM_RETURN_IF_ERROR(CheckReducible(frame.call.name, buffers->types, *reduction, IsReducible));
  Result<std::vector<int>> group = GroupOf(*groups, GpuRuntime::Get().job_pe(), frame.call.name);
  if (!group.ok()) return group.status();
  for (int& pe : *group) {
    const Result<int> world_pe = ToWorldPe(pe, frame.call.name);
    if (!world_pe.ok()) return world_pe.status();
    pe = *world_pe;
  }
  return gpu::AllReduceArguments{
      frame.call.name,
      *reduction,
      *std::move(group),
      std::move(buffers->types),
      {std::move(buffers->operands), std::move(buffers->results), std::move(buffers->bytes)}};
}

const GpuHandlerRegistration registration =
    RegisterGpuHandlers<CollectiveOp::kAllReduce, gpu::AllReduceArguments, Read, &gpu::Transfers::StartAllReduce,
                        &gpu::Transfers::ReplayAllReduce>();

}  // namespace
}  // namespace xla_shmem
