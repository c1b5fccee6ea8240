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
    fprintf(stderr, "xla_shmem: the GPU's streams do not end after this error; ending the process\n");
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

std::string Watchdog::failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
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

bool Watchdog::Running(const Entry& entry, std::string* error) const {
  bool running = false;
  for (const EventRef& event : entry.events) {
    switch (device_->Query(event.get())) {
      case Device::Progress::kRunning:
        running = true;
        break;
      case Device::Progress::kFailed:
        *error = "the GPU reports an error on the streams of xla-shmem";
        return false;
      case Device::Progress::kDone:
        break;
    }
  }
  return running;
}

// Drops what is done, from the front: later transfers are enqueued behind earlier ones.
std::string Watchdog::FindFailure(std::list<Entry>& entries) {
  std::string error;
  while (!entries.empty()) {
    Entry& entry = entries.front();
    if (entry.begun != nullptr) {
      if (device_->Query(entry.begun.get()) == Device::Progress::kRunning) return "";
      entry.begun.reset();
      entry.deadline = Clock::now() + deadline_;
    }
    if (Running(entry, &error)) return Clock::now() < entry.deadline ? "" : entry.describe();
    if (!error.empty()) return error;
    entries.pop_front();
  }
  return "";
}

// Waits for the streams to end after the trap.
void Watchdog::End(const std::string& reason, std::list<Entry>& entries) {
  const auto give_up = Clock::now() + grace_;
  const auto running = [&](const Entry& entry) {
    std::string error;
    return Running(entry, &error);
  };
  while (std::any_of(entries.begin(), entries.end(), running)) {
    if (Clock::now() >= give_up) return on_failure_(reason, /*stuck=*/true);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Watchdog::Run() {
  const ScopedContext context(*device_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (entries_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, kPoll);
    }
    std::list<Entry> looked_at = std::move(entries_);
    entries_.clear();
    lock.unlock();
    const std::string reason = FindFailure(looked_at);
    if (!reason.empty()) {
      Fail(reason);
      End(reason, looked_at);
      looked_at.clear();
    }
    lock.lock();
    entries_.splice(entries_.begin(), looked_at);
  }
}

}  // namespace xla_shmem::gpu
