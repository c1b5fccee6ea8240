#include "xla_patch/bindings/ffi/gpu/recording.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "xla_patch/runtime/observe/recorded_peers.h"

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

// Without groups if the attributes cannot be read, which the handler reports.
observe::Site SiteOf(const GpuCallFrame& frame, CollectiveOp op) {
  observe::Site site{frame.call.operation, OpName(op), frame.call.name, frame.attributes.contains("pairs"), {}};
  if (!site.is_pairs) {
    if (Result<PeGroups> groups = ReadGroups(frame.attributes); groups.ok()) site.groups = *std::move(groups);
  } else if (const Result<PePairs> pairs = ReadPairs(frame.attributes); pairs.ok()) {
    site.groups = AsGroups(*pairs);
  }
  return site;
}

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

std::shared_ptr<gpu::Follower> RecordExecution(const GpuCallFrame& frame, CollectiveOp op, gpu::CudaStream stream) {
  Recording& recording = TheRecording();
  if (recording.pe < 0 || !recording.observer.records() || GpuRuntime::Get().device().Capturing(stream)) return nullptr;
  const observe::RecordedSite* site = recording.observer.FindSite(frame.call.operation, frame.call.name);
  if (site == nullptr) site = recording.observer.AddSite(SiteOf(frame, op));
  uint64_t execution = 0;
  {
    const std::lock_guard<std::mutex> lock(recording.mutex);
    execution = recording.executions[site]++;
  }
  // All processes enqueue the executions of an operation in the same order.
  return std::make_shared<RecordingFollower>(
      recording.observer.Begin(recording.pe, site, execution << 32, OperandBytes(frame)));
}

}  // namespace xla_shmem
