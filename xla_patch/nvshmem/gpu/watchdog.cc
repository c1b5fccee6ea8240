#include "xla_patch/nvshmem/gpu/watchdog.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace xla_shmem::gpu {
namespace {

constexpr std::chrono::milliseconds kPoll{100};

void PrintAndExit(const std::string& reason, bool stuck) {
  if (!stuck) {
    fprintf(stderr, "xla_shmem: %s\n", reason.c_str());
  } else {
    fprintf(stderr, "xla_shmem: the GPU's streams do not end after this error; the process exits\n");
    fflush(stderr);
    std::_Exit(70);
  }
}

}  // namespace

EventRef MarkShared(Device& device, CudaStream stream) {
  return EventRef(device.Mark(stream), [&device](CudaEvent event) { device.Recycle(event); });
}

Watchdog::Watchdog(Device* device, std::chrono::nanoseconds deadline, OnFailure on_failure,
                   std::chrono::milliseconds grace)
    : device_(device),
      deadline_(deadline),
      on_failure_(on_failure ? std::move(on_failure) : PrintAndExit),
      grace_(grace),
      trap_stream_(device->CreateStream()),
      thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::Watch(EventRef begun, std::vector<EventRef> events, Describe describe) {
  std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back({std::move(begun), std::move(events), {}, std::move(describe)});
  if (entries_.size() == 1) wake_.notify_all();
}

void Watchdog::WatchGraphs(const uint64_t* busy, const uint64_t* ended, const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  graph_busy_ = busy;
  graph_ended_ = ended;
  if (std::find(graph_names_.begin(), graph_names_.end(), name) == graph_names_.end()) graph_names_.push_back(name);
  wake_.notify_all();
}

Status Watchdog::Check() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_.empty() ? Status() : Status::Error(failure_);
}

void Watchdog::Fail(const std::string& reason) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = reason;
  }
  on_failure_(reason, /*stuck=*/false);
  device_->Trap(trap_stream_);
}

Device::Progress Watchdog::ProgressOf(const Entry& entry) const {
  Device::Progress progress = Device::Progress::kDone;
  for (const EventRef& event : entry.events) {
    switch (device_->Query(event.get())) {
      case Device::Progress::kRunning:
        progress = Device::Progress::kRunning;
        break;
      case Device::Progress::kFailed:
        return Device::Progress::kFailed;
      case Device::Progress::kDone:
        break;
    }
  }
  return progress;
}

// Drops finished entries from the front: later transfers are enqueued behind earlier ones.
Status Watchdog::CheckTransfers(std::list<Entry>& entries) {
  for (; !entries.empty(); entries.pop_front()) {
    Entry& entry = entries.front();
    if (entry.begun != nullptr) {
      if (device_->Query(entry.begun.get()) == Device::Progress::kRunning) return {};
      entry.begun.reset();
      entry.deadline = Clock::now() + deadline_;
    }
    const Device::Progress progress = ProgressOf(entry);
    if (progress == Device::Progress::kFailed) {
      return Status::Error("the GPU reports an error on the streams of xla-shmem");
    }
    if (progress == Device::Progress::kDone) continue;
    if (Clock::now() < entry.deadline) return {};
    return Status::Error(entry.describe());
  }
  return {};
}

// Error if an operation of a graph is running and none has ended for as long as the deadline. It reads
// the GPU's memory, so it runs at most every second or quarter of the deadline, whichever is shorter.
Status Watchdog::CheckGraphs() {
  const Clock::time_point now = Clock::now();
  if (graph_busy_ == nullptr || now < next_graph_check_) return {};
  next_graph_check_ = now + std::min<Clock::duration>(deadline_ / 4, std::chrono::seconds(1));
  uint64_t busy = 0;
  uint64_t ended = 0;
  if (!device_->ReadWord(graph_ended_, &ended) || !device_->ReadWord(graph_busy_, &busy)) return {};
  if (busy == 0 || ended != ended_seen_ || graph_deadline_ == Clock::time_point()) {
    ended_seen_ = ended;
    graph_deadline_ = now + deadline_;
    return {};
  }
  if (now < graph_deadline_) return {};
  constexpr size_t kNamed = 8;
  std::string text =
      "an operation of a CUDA graph has not finished within the deadline (XLA_SHMEM_DEADLINE); it is one of ";
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < std::min(kNamed, graph_names_.size()); ++i) text += (i == 0 ? "" : ", ") + graph_names_[i];
  return Status::Error(text + (graph_names_.size() > kNamed ? ", ..." : ""));
}

// Waits for the streams to end after the trap.
void Watchdog::End(const std::string& reason, std::list<Entry>& entries) {
  const auto give_up = Clock::now() + grace_;
  const auto running = [&](const Entry& entry) { return ProgressOf(entry) == Device::Progress::kRunning; };
  while (std::any_of(entries.begin(), entries.end(), running)) {
    if (Clock::now() >= give_up) return on_failure_(reason, /*stuck=*/true);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Watchdog::Run() {
  const ScopedContext context(*device_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (entries_.empty() && graph_busy_ == nullptr) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, kPoll);
    }
    if (!failure_.empty()) {
      // The job has failed already.
      entries_.clear();
      continue;
    }
    std::list<Entry> checked = std::move(entries_);
    entries_.clear();
    lock.unlock();
    Status status = CheckTransfers(checked);
    if (status.ok()) status = CheckGraphs();
    if (!status.ok()) {
      Fail(status.message());
      End(status.message(), checked);
      checked.clear();
    }
    lock.lock();
    entries_.splice(entries_.begin(), checked);
  }
}

}  // namespace xla_shmem::gpu
