// The parts of a call that the handlers of all ops read on the GPU path.
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_CALL_FRAME_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_CALL_FRAME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/timeline.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// One execution of a call on this process's GPU.
struct GpuCallFrame {
  CallIdentity call;
  ::xla::ffi::Dictionary attributes;
  ::xla::ffi::RemainingArgs operands;
  ::xla::ffi::RemainingRets results;
};

// The arguments of every handler: stream, run, operands, results, attributes.
inline auto GpuCallBinding() {
  return ::xla::ffi::Ffi::Bind()
      .Ctx<::xla::ffi::PlatformStream<gpu::CudaStream>>()
      .Ctx<::xla::ffi::RunId>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

// Of all operands together.
uint64_t OperandBytes(const GpuCallFrame& frame);

::xla::ffi::Error ToFfiError(const Status& status);

// An error if the runtime does not run, or if the call was compiled for another topology.
Result<CallIdentity> ReadRunnableCall(::xla::ffi::Dictionary attributes);

// The tag of the call's messages: of its program and operation, and of the PEs that it connects.
uint32_t TagOfCall(const CallIdentity& call, ::xla::ffi::Dictionary attributes);

// Converts a PE of the job, -1 for none, to the PE of this NVSHMEM world. The pass does not move collectives across
// worlds. `name`: of the call.
Result<int> ToWorldPe(int job_pe, const std::string& name);

// The PEs that a permute connects with this one, in PEs of its NVSHMEM world.
Result<Neighbours> ReadNeighbours(const GpuCallFrame& frame);

// The group of this PE in PEs of its NVSHMEM world. Empty in a broadcast without this PE.
Result<std::vector<int>> ReadGroup(const GpuCallFrame& frame, CollectiveOp op);

// Follows this execution for the records; null if nothing is recorded.
std::shared_ptr<gpu::Follower> FollowExecution(const GpuCallFrame& frame, CollectiveOp op, gpu::CudaStream stream);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_CALL_FRAME_H_
