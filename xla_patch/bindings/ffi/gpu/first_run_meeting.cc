#include "xla_patch/bindings/ffi/gpu/first_run_meeting.h"

#include <string>

#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/types/time_limit.h"

namespace xla_shmem {
namespace {

using Place = LocalMeetings::Place;

constexpr std::chrono::seconds kTellAfter{10};

std::string Seconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

std::string Names(const std::vector<int>& pes) {
  std::string text = pes.size() == 1 ? "PE " : "PEs ";
  for (size_t i = 0; i < pes.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(pes[i]);
  return text;
}

}  // namespace

FirstRunMeeting::FirstRunMeeting(const GpuCallFrame& frame, gpu::CudaStream stream) : frame_(frame) {
  GpuProcess& process = GpuProcess::Get();
  if (process.devices().size() < 2 || process.meetings().IsOver(frame.call.operation, frame.gpu->job_pe())) return;
  const std::vector<int>& members = frame.decoded.local_members;
  if (members.size() < 2 || frame.gpu->device().Capturing(stream)) return;
  members_ = members;
  status_ = Meet(Place::kBefore);
}

FirstRunMeeting::~FirstRunMeeting() {
  if (status_.ok()) static_cast<void>(Meet(Place::kBehind));
}

Status FirstRunMeeting::Meet(Place place) const {
  gpu::Watchdog& watchdog = frame_.gpu->watchdog();
  std::chrono::nanoseconds next_line = kTellAfter;
  const auto on_wait = [&](std::chrono::nanoseconds waited, const std::vector<int>& missing) -> Status {
    XLA_SHMEM_RETURN_IF_ERROR(watchdog.Check());
    const std::string what = frame_.call.Label() + " on PE " + std::to_string(frame_.gpu->job_pe()) +
                             (place == Place::kBefore ? " has not begun" : " has begun") + ": it waits for the thread" +
                             (missing.size() == 1 ? "" : "s") + " of " + Names(missing) + " of this process";
    if (waited >= watchdog.deadline()) {
      watchdog.Fail(what + "; gave up after the deadline (XLA_SHMEM_DEADLINE)");
      return watchdog.Check();
    }
    if (waited < next_line) return {};
    next_line = 2 * waited;
    GpuProcess::Get().Report(
        frame_.gpu, gpu::Watchdog::Event::kWaits,
        what + " since " + Seconds(waited) + "; goes on waiting" +
            (IsLimit(watchdog.deadline()) ? " until the deadline of " + Seconds(watchdog.deadline()) : "") +
            " (XLA_SHMEM_DEADLINE)");
    return {};
  };
  return members_.empty()
             ? Status()
             : GpuProcess::Get().meetings().Meet(frame_.call.operation, place, frame_.gpu->job_pe(), members_, on_wait);
}

}  // namespace xla_shmem
