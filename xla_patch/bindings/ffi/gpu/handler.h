// Makes the handlers of an op from the function that reads its arguments and two methods of Transfers.
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_HANDLER_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_HANDLER_H_

#include <memory>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/gpu/call_frame.h"
#include "xla_patch/bindings/ffi/gpu/first_run_meeting.h"
#include "xla_patch/bindings/ffi/gpu/handlers.h"
#include "xla_patch/bindings/ffi/gpu/profiler_range.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// Reads a call and passes its arguments to `enqueue`, with the GPU's context current.
template <CollectiveOp kOp, typename Arguments, typename Enqueue>
::xla::ffi::Error EnqueueCall(Result<Arguments> (*read)(const GpuCallFrame&), Enqueue enqueue,
                              const GpuCallPlace& place, ::xla::ffi::RemainingArgs operands,
                              ::xla::ffi::RemainingRets results, ::xla::ffi::Dictionary attributes) {
  const Result<std::shared_ptr<const DecodedCall>> decoded = DecodeCall(kOp, place.device, attributes);
  if (!decoded.ok()) return ToError(decoded.status());
  const DecodedCall& call = **decoded;
  const GpuCallFrame frame{call, call.identity, call.gpu, attributes, operands, results};
  Result<Arguments> arguments = read(frame);
  if (!arguments.ok()) return ToError(arguments.status());
  const gpu::ScopedContext context(call.gpu->device());
  arguments->tag = call.tag;
  arguments->follower = FollowExecution(frame, kOp, place.stream);
  const ProfilerRange range(frame, kOp);
  const FirstRunMeeting meeting(frame, place.stream);
  if (!meeting.status().ok()) return ToError(meeting.status());
  return ToFfiError(enqueue(call.gpu->transfers(), call.identity, *arguments));
}

template <CollectiveOp kOp, typename Arguments, Result<Arguments> (*Read)(const GpuCallFrame&),
          Status (gpu::Transfers::*Start)(const gpu::TransferKey&, const Arguments&, gpu::CudaStream)>
::xla::ffi::Error StartCall(gpu::CudaStream stream, ::xla::ffi::RunId run, int32_t device,
                            ::xla::ffi::RemainingArgs operands, ::xla::ffi::RemainingRets results,
                            ::xla::ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& call, const Arguments& arguments) {
    return (transfers.*Start)({call.operation, run.run_id}, arguments, stream);
  };
  return EnqueueCall<kOp>(Read, enqueue, {stream, run.run_id, device}, operands, results, attributes);
}

template <CollectiveOp kOp, typename Arguments, Result<Arguments> (*Read)(const GpuCallFrame&),
          Status (gpu::Transfers::*Run)(const Arguments&, gpu::CudaStream)>
::xla::ffi::Error WholeCall(gpu::CudaStream stream, ::xla::ffi::RunId run, int32_t device,
                            ::xla::ffi::RemainingArgs operands, ::xla::ffi::RemainingRets results,
                            ::xla::ffi::Dictionary attributes) {
  const auto enqueue = [&](gpu::Transfers& transfers, const CallIdentity& /*call*/, const Arguments& arguments) {
    return (transfers.*Run)(arguments, stream);
  };
  return EnqueueCall<kOp>(Read, enqueue, {stream, run.run_id, device}, operands, results, attributes);
}

// The handler of a whole operation; CUDA graphs may capture it if it says so.
template <auto kCall, bool kInGraphs>
XLA_FFI_Error* CallWhole(XLA_FFI_CallFrame* frame) {
  static auto* const handler = [] {
    if constexpr (kInGraphs) return GpuCallBinding().To(kCall, {::xla::ffi::Traits::kCmdBufferCompatible}).release();
    return GpuCallBinding().To(kCall).release();
  }();
  return handler->Call(frame);
}

// `Arguments` are those of thunks/gpu. XLA takes the handlers as plain functions.
template <CollectiveOp kOp, typename Arguments, Result<Arguments> (*Read)(const GpuCallFrame&),
          Status (gpu::Transfers::*Start)(const gpu::TransferKey&, const Arguments&, gpu::CudaStream),
          Status (gpu::Transfers::*Run)(const Arguments&, gpu::CudaStream)>
GpuHandlerRegistration RegisterGpuHandlers() noexcept {
  static_assert(InfoOf(kOp).Has(op_trait::kOnGpu), "the table of ops does not carry this one on GPU");
  constexpr auto kWhole = WholeCall<kOp, Arguments, Read, Run>;
  return {kOp,
          [](XLA_FFI_CallFrame* frame) {
            static auto* const handler = GpuCallBinding().To(StartCall<kOp, Arguments, Read, Start>).release();
            return handler->Call(frame);
          },
          {CallWhole<kWhole, true>, CallWhole<kWhole, false>}};
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_HANDLER_H_
