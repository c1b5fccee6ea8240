#include <utility>

#include "xla_patch/bindings/ffi/gpu/handler.h"

namespace xla_shmem {
namespace {

Result<gpu::PermuteArguments> Read(const GpuCallFrame& frame) {
  const Result<Neighbours> neighbours = ReadNeighbours(frame);
  if (!neighbours.ok()) return neighbours.status();
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, 1, 1);
  if (!buffers.ok()) return buffers.status();
  gpu::PermuteArguments permute;
  permute.name = frame.call.name;
  permute.source = neighbours->source;
  permute.target = neighbours->target;
  permute.buffers = {std::move(buffers->operands), std::move(buffers->results), std::move(buffers->bytes)};
  return permute;
}

const GpuHandlerRegistration gpu_collective_permute =
    RegisterGpuHandlers<CollectiveOp::kCollectivePermute, gpu::PermuteArguments, Read, &gpu::Transfers::StartPermute,
                        &gpu::Transfers::ReplayPermute>();

}  // namespace
}  // namespace xla_shmem
