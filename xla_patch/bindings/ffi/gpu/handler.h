// Makes the handlers of an op from the function that reads its arguments and two methods of Transfers.
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_HANDLER_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_HANDLER_H_

#include <memory>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/gpu/call_frame.h"
#include "xla_patch/bindings/ffi/gpu/handlers.h"
#include "xla_patch/bindings/ffi/gpu/profiler_range.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/local_meetings.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// Meets the threads of this process's other members of the collective, before and behind its first run. A call that is
// only captured meets nobody: XLA launches the graph later.
class FirstRunMeeting {
 public:
  FirstRunMeeting(const GpuCallFrame& frame, gpu::CudaStream stream) : operation_(frame.call.operation) {
    const std::vector<int>& members = frame.decoded.local_members;
    if (members.size() > 1 && !frame.gpu->device().Capturing(stream)) members_ = members;
    Meet(LocalMeetings::Place::kBefore);
  }
  ~FirstRunMeeting() { Meet(LocalMeetings::Place::kBehind); }
  FirstRunMeeting(const FirstRunMeeting&) = delete;
  FirstRunMeeting& operator=(const FirstRunMeeting&) = delete;

 private:
  void Meet(LocalMeetings::Place place) const {
    if (members_.empty()) return;
    GpuProcess::Get().meetings().Meet(operation_, members_.front(), place, static_cast<int>(members_.size()));
  }
  const uint64_t operation_;
  std::vector<int> members_;
};

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

// `Arguments` are those of thunks/gpu. XLA takes the handlers as plain functions.
template <CollectiveOp kOp, typename Arguments, Result<Arguments> (*Read)(const GpuCallFrame&),
          Status (gpu::Transfers::*Start)(const gpu::TransferKey&, const Arguments&, gpu::CudaStream),
          Status (gpu::Transfers::*Run)(const Arguments&, gpu::CudaStream)>
GpuHandlerRegistration RegisterGpuHandlers() noexcept {
  static_assert(InfoOf(kOp).Has(op_trait::kOnGpu), "the table of ops does not carry this one on GPU");
  return {kOp,
          [](XLA_FFI_CallFrame* frame) {
            static auto* const handler = GpuCallBinding().To(StartCall<kOp, Arguments, Read, Start>).release();
            return handler->Call(frame);
          },
          [](XLA_FFI_CallFrame* frame) {
            static auto* const handler =
                GpuCallBinding()
                    .To(WholeCall<kOp, Arguments, Read, Run>, {::xla::ffi::Traits::kCmdBufferCompatible})
                    .release();
            return handler->Call(frame);
          }};
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_HANDLER_H_
