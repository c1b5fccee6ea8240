#include "xla_patch/nvshmem/gpu/watchdog.h"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"

namespace xla_shmem::testing {
namespace {

using gpu::Watchdog;

constexpr std::chrono::nanoseconds kNoDeadline{9'000'000'000'000'000'000};
const std::string kGaveUp = "; gave up after the deadline (XLA_SHMEM_DEADLINE)";

std::atomic<bool> driver_hangs{false};
std::atomic<bool> copies_hang{false};

void HangWhile(const std::atomic<bool>& hangs) {
  while (hangs.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The double, whose calls return only while the flags above are not set.
const gpu::CudaDriver& HangingDriver() {
  static const gpu::CudaDriver driver = [] {
    gpu::CudaDriver table = CudaDouble::Driver();
    table.event_query = [](gpu::CudaEvent event) {
      HangWhile(driver_hangs);
      return CudaDouble::Driver().event_query(event);
    };
    table.memcpy_async = [](gpu::DeviceAddress destination, gpu::DeviceAddress source, size_t bytes,
                            gpu::CudaStream stream) {
      HangWhile(copies_hang);
      return CudaDouble::Driver().memcpy_async(destination, source, bytes, stream);
    };
    return table;
  }();
  return driver;
}

// A watchdog with a transfer that waits for a word which nobody writes.
class LateJob {
 public:
  explicit LateJob(std::chrono::nanoseconds deadline = std::chrono::milliseconds(100),
                   std::chrono::milliseconds late_after = Watchdog::kLateAfter)
      : device_(&HangingDriver(), &CudaDouble::Shmem(), gpu::Puts::kDriver, cuda_.context()) {
    const gpu::ScopedContext context(device_);
    REQUIRE(device_.LoadKernels("kernels.cu").ok());
    watchdog_ = std::make_unique<Watchdog>(
        &device_, deadline, [this](Watchdog::Event event, const std::string& reason) { Note(event, reason); },
        std::chrono::milliseconds(300), late_after);
  }
  ~LateJob() {
    driver_hangs = copies_hang = false;
    watchdog_.reset();
  }

  void Start(std::function<std::string()> find_fault = {}) {
    const gpu::ScopedContext context(device_);
    const gpu::CudaStream stream = device_.CreateStream();
    gpu::EventRef begun = device_.Mark(stream);
    gpu::BatchedStream waits(&device_, stream);
    waits.WaitAtLeast(&word_, 1);
    waits.Flush();
    const auto read = [this] {
      const std::vector<uint64_t> seen = device_.ReadWords(&word_, 1, std::chrono::seconds(1));
      return seen.empty() ? std::string("op waits") : "op waits, seen " + std::to_string(seen[0]);
    };
    watchdog_->Watch(std::move(begun), {device_.Mark(stream)}, {"op waits", read, std::move(find_fault)});
  }

  // The events so far, once there are at least `count` of them.
  std::vector<std::pair<Watchdog::Event, std::string>> WaitForEvents(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return events_.size() >= count; }));
    return events_;
  }
  Status Check() const { return watchdog_->Check(); }
  Watchdog& watchdog() { return *watchdog_; }

 private:
  void Note(Watchdog::Event event, const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    events_.emplace_back(event, reason);
    changed_.notify_all();
  }

  CudaDouble cuda_;
  gpu::Device device_;
  uint64_t word_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<Watchdog::Event, std::string>> events_;
  std::unique_ptr<Watchdog> watchdog_;
};

TEST_CASE("A late transfer is reported, then described with what was read from the GPU") {
  LateJob job;
  job.Start();
  const auto events = job.WaitForEvents(2);
  CHECK(events[0] == std::make_pair(Watchdog::Event::kLate, "op waits" + kGaveUp));
  CHECK(events[1] == std::make_pair(Watchdog::Event::kDescribed, "op waits, seen 0" + kGaveUp));
}

TEST_CASE("A copy that the driver does not take stands behind the report and ends the process") {
  LateJob job;
  copies_hang = true;
  job.Start();
  const auto events = job.WaitForEvents(2);
  CHECK(events[0] == std::make_pair(Watchdog::Event::kLate, "op waits" + kGaveUp));
  CHECK(events[1].first == Watchdog::Event::kStuck);
  CHECK(events[1].second ==
        "the CUDA driver does not answer after this error: op waits" + kGaveUp + "; the process exits");
  CHECK(job.Check().message() == "op waits" + kGaveUp);
}

TEST_CASE("A driver that does not answer ends the process with the transfer that is unfinished") {
  LateJob job;
  driver_hangs = true;
  job.Start();
  const auto events = job.WaitForEvents(1);
  CHECK(events[0].first == Watchdog::Event::kStuck);
  CHECK(events[0].second == "the CUDA driver has not answered for 0 s; unfinished: op waits; the process exits");
}

TEST_CASE("Without a deadline a late transfer is told at growing distance, and the job goes on") {
  LateJob job(kNoDeadline, std::chrono::milliseconds(200));
  job.watchdog().SetAskPeers([] { return gpu::PeerFacts{"", "; process 1 (pid 7) is running"}; });
  job.Start();
  const auto events = job.WaitForEvents(3);
  for (const auto& [event, reason] : events) {
    CHECK(event == Watchdog::Event::kWaits);
    CHECK(reason.find("op waits; no progress for ") == 0);
    CHECK(reason.find(" s; process 1 (pid 7) is running; goes on waiting (XLA_SHMEM_DEADLINE)") != std::string::npos);
  }
  CHECK(events.size() == 3);  // after 0.2, 0.4 and 0.8 s, and not at each look
  CHECK(job.Check().ok());
}

TEST_CASE("A transfer whose peer is lost ends without a deadline") {
  LateJob job(kNoDeadline);
  job.watchdog().SetAskPeers([] { return gpu::PeerFacts{"process 1 (pid 7) has exited", ""}; });
  job.Start();
  const auto events = job.WaitForEvents(1);
  CHECK(events[0] == std::make_pair(Watchdog::Event::kLate, std::string("op waits; process 1 (pid 7) has exited")));
}

TEST_CASE("A fault that is found ends a transfer before its deadline") {
  std::atomic<int> looks{0};
  LateJob job(std::chrono::minutes(10));
  job.Start([&] { return ++looks < 3 ? std::string() : std::string("op cannot end"); });
  const auto events = job.WaitForEvents(1);
  CHECK(events[0] == std::make_pair(Watchdog::Event::kLate, std::string("op cannot end")));
  CHECK(job.Check().message() == "op cannot end");
  CHECK(looks == 3);
}

}  // namespace
}  // namespace xla_shmem::testing
