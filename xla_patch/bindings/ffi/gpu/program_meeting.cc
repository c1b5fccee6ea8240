// The handler of the call with which a program begins in a process with several GPUs (hlo/rewrite/several_gpus.h).
#include <memory>
#include <optional>

#include "xla_patch/bindings/ffi/gpu/call_frame.h"
#include "xla_patch/bindings/ffi/gpu/decoded_call.h"
#include "xla_patch/bindings/ffi/gpu/handlers.h"
#include "xla_patch/bindings/ffi/gpu/thread_meeting.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// A program begins on this GPU. A process with one GPU has nobody to wait for.
ffi::Error Meet(gpu::CudaStream /*stream*/, ffi::RunId run, int32_t device, ffi::RemainingArgs /*operands*/,
                ffi::RemainingRets /*results*/, ffi::Dictionary attributes) {
  const Result<std::shared_ptr<const DecodedCall>> call = DecodeCall(std::nullopt, device, attributes);
  if (!call.ok()) return ToError(call.status());
  const LocalMeetings::Meeting meeting{LocalMeetings::Place::kBeforeRun, (*call)->identity.operation, run.run_id};
  return ToFfiError(MeetThreads(meeting, **call));
}

XLA_FFI_DEFINE_HANDLER(kMeet, Meet, GpuCallBinding());

GpuCallRegistration Register() noexcept {
  const auto call = [](XLA_FFI_CallFrame* frame) { return kMeet(frame); };
  return {kMeetTarget, call};
}

const GpuCallRegistration gpu_meeting = Register();

}  // namespace
}  // namespace xla_shmem
