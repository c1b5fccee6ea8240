#include "xla_patch/bindings/ffi/gpu/thread_meeting.h"

#include <chrono>
#include <string>
#include <vector>

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

Status MeetThreads(const LocalMeetings::Meeting& meeting, const DecodedCall& call) {
  gpu::Watchdog& watchdog = call.gpu->watchdog();
  std::chrono::nanoseconds next_line = kTellAfter;
  const auto on_wait = [&](std::chrono::nanoseconds waited, const std::vector<int>& missing) -> Status {
    XLA_SHMEM_RETURN_IF_ERROR(watchdog.Check());
    const std::string what = call.identity.Label() + " on PE " + std::to_string(call.gpu->job_pe()) +
                             (meeting.place == Place::kBehindFirst ? " has begun" : " has not begun") +
                             ": it waits for the thread" + (missing.size() == 1 ? "" : "s") + " of " + Names(missing) +
                             " of this process";
    if (waited >= watchdog.deadline()) {
      watchdog.Fail(what + "; gave up after the deadline (XLA_SHMEM_DEADLINE)");
      return watchdog.Check();
    }
    if (waited < next_line) return {};
    next_line = 2 * waited;
    GpuProcess::Get().Report(
        call.gpu, gpu::Watchdog::Event::kWaits,
        what + " since " + Seconds(waited) + "; goes on waiting" +
            (IsLimit(watchdog.deadline()) ? " until the deadline of " + Seconds(watchdog.deadline()) : "") +
            " (XLA_SHMEM_DEADLINE)");
    return {};
  };
  return GpuProcess::Get().meetings().Meet(meeting, call.gpu->job_pe(), call.meeting, on_wait);
}

}  // namespace xla_shmem
