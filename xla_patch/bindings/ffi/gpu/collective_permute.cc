#include <utility>

#include "xla_patch/bindings/ffi/gpu/handler.h"

namespace xla_shmem {
namespace {

Result<gpu::PermuteArguments> Read(const GpuCallFrame& frame) {
  const Result<PePairs> pairs = ReadPairs(frame.attributes);
  if (!pairs.ok()) return pairs.status();
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, 1, 1);
  if (!buffers.ok()) return buffers.status();
  const Neighbours neighbours = FindNeighbours(*pairs, GpuRuntime::Get().job_pe());
  const Result<int> source = ToWorldPe(neighbours.source, frame.call.name);
  if (!source.ok()) return source.status();
  const Result<int> target = ToWorldPe(neighbours.target, frame.call.name);
  if (!target.ok()) return target.status();
  gpu::PermuteArguments permute;
  permute.name = frame.call.name;
  permute.source = *source;
  permute.target = *target;
  permute.buffers = {std::move(buffers->operands), std::move(buffers->results), std::move(buffers->bytes)};
  return permute;
}

const GpuHandlerRegistration registration =
    RegisterGpuHandlers<CollectiveOp::kCollectivePermute, gpu::PermuteArguments, Read, &gpu::Transfers::StartPermute,
                        &gpu::Transfers::ReplayPermute>();

}  // namespace
}  // namespace xla_shmem
