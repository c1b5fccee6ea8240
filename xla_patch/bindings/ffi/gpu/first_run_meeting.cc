#include "xla_patch/bindings/ffi/gpu/first_run_meeting.h"

#include "xla_patch/bindings/ffi/gpu/thread_meeting.h"
#include "xla_patch/thunks/gpu/gpu_process.h"

namespace xla_shmem {

using Place = LocalMeetings::Place;

FirstRunMeeting::FirstRunMeeting(const GpuCallFrame& frame, gpu::CudaStream stream) : call_(frame.decoded) {
  GpuProcess& process = GpuProcess::Get();
  if (process.devices().size() < 2 || process.meetings().IsOver(frame.call.operation, frame.gpu->job_pe())) return;
  if (call_.meeting.size() < 2 || frame.gpu->device().Capturing(stream)) return;
  status_ = MeetThreads({Place::kBeforeFirst, call_.identity.operation}, call_);
  is_held_ = status_.ok();
}

FirstRunMeeting::~FirstRunMeeting() {
  if (is_held_) static_cast<void>(MeetThreads({Place::kBehindFirst, call_.identity.operation}, call_));
}

}  // namespace xla_shmem
