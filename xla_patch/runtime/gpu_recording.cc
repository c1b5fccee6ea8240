#include "xla_patch/runtime/gpu_recording.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "xla_patch/runtime/observe/recorded_peers.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem {
namespace {

// This process's observer. Never destroyed: XLA's threads may use it until the process exits.
struct Recording {
  observe::Observer observer;
  int pe = -1;  // -1: not started
  pid_t creator = 0;
  std::mutex mutex;
  std::map<const observe::RecordedSite*, uint64_t> executions;  // so far; guarded by mutex
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
  const uint64_t count = GpuRuntime::Get().started() ? GpuRuntime::Get().transfers().in_graphs().run : 0;
  if (count == 0) return "";
  return "  " + std::to_string(count) + " more ran in CUDA graphs, without times\n";
}

}  // namespace

std::vector<std::string> StartGpuObserver(observe::ObserverOptions options, int pe, const std::vector<int>& processes) {
  Recording& recording = TheRecording();
  options.on_gpu = true;
  recording.creator = getpid();
  std::vector<std::string> warnings = recording.observer.Start(options, pe, processes, {pe});
  recording.pe = pe;
  const auto peers = std::make_shared<observe::RecordedPeers>(options.record_directory, processes, pe);
  GpuRuntime::Get().SetAskPeers([peers] {
    observe::RecordedPeers::Facts facts = peers->Look();
    return gpu::PeerFacts{std::move(facts.lost), std::move(facts.late)};
  });
  GpuRuntime::Get().SetFailureHook([](const std::string& why) { return TheRecording().observer.FailJob(why); });
  on_exit(
      [](int code, void*) {
        if (getpid() == TheRecording().creator) TheRecording().observer.Close(code);
      },
      nullptr);
  return warnings;
}

void ReportGpuObserver() {
  Recording& recording = TheRecording();
  if (recording.pe < 0 || getpid() != recording.creator) return;
  if (GpuRuntime::Get().started()) GpuRuntime::Get().timeline().Settle();
  recording.observer.Report(InGraphs());
}

std::shared_ptr<gpu::Follower> RecordExecution(const GpuExecution& execution, gpu::CudaStream stream,
                                               const std::function<observe::Site()>& site) {
  Recording& recording = TheRecording();
  if (recording.pe < 0 || !recording.observer.records() || GpuRuntime::Get().device().Capturing(stream)) return nullptr;
  const observe::RecordedSite* found = recording.observer.FindSite(execution.operation, execution.name);
  if (found == nullptr) found = recording.observer.AddSite(site());
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(recording.mutex);
    number = recording.executions[found]++;
  }
  // All processes enqueue the executions of an operation in the same order.
  return std::make_shared<RecordingFollower>(
      recording.observer.Begin(recording.pe, found, number << 32, execution.bytes));
}

}  // namespace xla_shmem
