#include "xla_patch/runtime/gpu_recording.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "xla_patch/runtime/observe/recorded_peers.h"
#include "xla_patch/thunks/gpu/gpu_process.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem {
namespace {

// This process's observer. Never destroyed: XLA's threads may use it until the process exits.
struct Recording {
  observe::Observer observer;
  bool started = false;
  pid_t creator = 0;
  std::mutex mutex;
  // So far, by site and PE; guarded by mutex.
  std::map<std::pair<const observe::RecordedSite*, int>, uint64_t> executions;
};

Recording& TheRecording() {
  static auto* const recording = new Recording;
  return *recording;
}

class RecordingFollower : public gpu::Follower {
 public:
  explicit RecordingFollower(const observe::Observer::Span& span) : span_(span) {}
  void Reached() override { TheRecording().observer.MarkWaiting(span_); }
  void Ended(gpu::Track track, const gpu::DeviceTimes& times) override {
    TheRecording().observer.EndOnGpu(span_, static_cast<int>(track), times.begun_ns, times.ended_ns);
  }
  void Failed() override { TheRecording().observer.FailOnGpu(span_); }

 private:
  const observe::Observer::Span span_;
};

std::string InGraphs() {
  uint64_t count = 0;
  for (GpuRuntime* const gpu : GpuProcess::Get().devices()) {
    if (gpu->started()) count += gpu->transfers().in_graphs().run;
  }
  if (count == 0) return "";
  return "  " + std::to_string(count) + " more ran in CUDA graphs, without times\n";
}

}  // namespace

std::vector<std::string> StartGpuObserver(observe::ObserverOptions options, int process,
                                          const std::vector<int>& processes, const std::vector<int>& pes) {
  Recording& recording = TheRecording();
  options.on_gpu = true;
  recording.creator = getpid();
  std::vector<std::string> warnings = recording.observer.Start(options, process, processes, pes);
  recording.started = true;
  const auto peers = std::make_shared<observe::RecordedPeers>(options.record_directory, processes, process);
  GpuProcess::Get().SetAskPeers([peers] {
    observe::RecordedPeers::Facts facts = peers->Look();
    return gpu::PeerFacts{std::move(facts.lost), std::move(facts.late)};
  });
  GpuProcess::Get().SetFailureHook([](const std::string& why) { return TheRecording().observer.FailJob(why); });
  on_exit(
      [](int code, void*) {
        if (getpid() == TheRecording().creator) TheRecording().observer.Close(code);
      },
      nullptr);
  return warnings;
}

void ReportGpuObserver() {
  Recording& recording = TheRecording();
  if (!recording.started || getpid() != recording.creator) return;
  for (GpuRuntime* const gpu : GpuProcess::Get().devices()) {
    if (gpu->started()) gpu->timeline().Settle();
  }
  recording.observer.Report(InGraphs());
}

std::shared_ptr<gpu::Follower> RecordExecution(const GpuExecution& execution, gpu::CudaStream stream,
                                               const std::function<observe::Site()>& site) {
  Recording& recording = TheRecording();
  if (!recording.started || !recording.observer.records() || execution.gpu->device().Capturing(stream)) return nullptr;
  const observe::RecordedSite* found = recording.observer.FindSite(execution.operation, execution.name);
  if (found == nullptr) found = recording.observer.AddSite(site());
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(recording.mutex);
    number = recording.executions[{found, execution.gpu->job_pe()}]++;
  }
  // All processes enqueue the executions of an operation in the same order.
  return std::make_shared<RecordingFollower>(
      recording.observer.Begin(execution.gpu->job_pe(), found, number << 32, execution.bytes));
}

}  // namespace xla_shmem
