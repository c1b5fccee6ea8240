// The parts of a call that the handlers of all ops read on the GPU path.
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_CALL_FRAME_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_CALL_FRAME_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/bindings/ffi/gpu/decoded_call.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/timeline.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// Where XLA calls a handler.
struct GpuCallPlace {
  gpu::CudaStream stream;
  int64_t run;
  int32_t device;  // CUDA ordinal
};

// One execution of a call on one of this process's GPUs.
struct GpuCallFrame {
  const DecodedCall& decoded;
  const CallIdentity& call;  // its
  GpuRuntime* gpu;           // its
  ::xla::ffi::Dictionary attributes;
  ::xla::ffi::RemainingArgs operands;
  ::xla::ffi::RemainingRets results;
};

// The arguments of every handler: stream, run, device, operands, results, attributes.
inline auto GpuCallBinding() {
  return ::xla::ffi::Ffi::Bind()
      .Ctx<::xla::ffi::PlatformStream<gpu::CudaStream>>()
      .Ctx<::xla::ffi::RunId>()
      .Ctx<::xla::ffi::DeviceOrdinal>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

// Of all operands together.
uint64_t OperandBytes(const GpuCallFrame& frame);

::xla::ffi::Error ToFfiError(const Status& status);

// An error if the runtime does not run, or if the call was compiled for another topology.
Result<CallIdentity> ReadRunnableCall(::xla::ffi::Dictionary attributes);

// The runtime of a CUDA device; an error if this process has not started it.
Result<GpuRuntime*> FindGpu(int32_t device, const std::string& name);

// The tag of the call's messages: of its program and operation, and of the PEs that it connects.
uint32_t TagOfCall(const CallIdentity& call, ::xla::ffi::Dictionary attributes);

// Reads the group or pairs of a call. Its identity and GPU are set. Without an op: of the call with which a program
// begins, whose group are the program's GPUs of a process.
Status ReadPeers(std::optional<CollectiveOp> op, ::xla::ffi::Dictionary attributes, DecodedCall* call);

// Follows this execution for the records; null if nothing is recorded.
std::shared_ptr<gpu::Follower> FollowExecution(const GpuCallFrame& frame, CollectiveOp op, gpu::CudaStream stream);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_CALL_FRAME_H_
