#include "xla_patch/runtime/marked_collectives.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/shm/test_heap.h"
#include "xla_patch/shm/progress_engine.h"

namespace xla_shmem {
namespace {

using namespace std::chrono_literals;

// A process with two PEs, whose lines about late PEs are kept.
class Process {
 public:
  explicit Process(std::chrono::nanoseconds late_after = 100ms)
      : heap_(testing::HeapOfOneProcess(2, 1 << 20)), engine_(heap_.get(), 20us, Limits(late_after)) {
    observe::ObserverOptions options;
    options.statistics = true;
    CHECK(observer_.Start(options, 0, {0}, {0, 1}).empty());
    marked_.emplace(heap_.get(), &engine_, &observer_, 10ms);
  }
  ~Process() { marked_->Stop(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  MarkedCollective* Add(const std::string& name) {
    observe::Site site{7, "all-gather", name, false, {{0, 1}}, "train.py:3", true};
    return marked_->Add(std::move(site), 64);
  }
  uint64_t Calls(const std::string& name) { return observer_.FindSite(7, name)->totals.calls; }
  std::string lines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }
  // The lines once they have `text`, or what there is after 20 s.
  std::string Await(const std::string& text) {
    for (int i = 0; i < 1000 && lines().find(text) == std::string::npos; ++i) std::this_thread::sleep_for(20ms);
    return lines();
  }

 private:
  shm::WaitLimits Limits(std::chrono::nanoseconds late_after) {
    shm::WaitLimits limits;
    limits.late_after = late_after;
    limits.deadline = 50ms;  // holds for our own operations only
    limits.say = [this](const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_ += line + "\n";
    };
    return limits;
  }

  std::mutex mutex_;
  std::string lines_;
  observe::Observer observer_;
  std::unique_ptr<shm::Heap> heap_;
  std::optional<MarkedCollectives> marked_;
  shm::ProgressEngine engine_;  // ends first, since it may hold executions of marked_
};

TEST_CASE("An execution is recorded from its beginning to its end, and one that has failed is not") {
  Process process;
  MarkedCollective* const gather = process.Add("f/a");
  gather->End(0);  // nothing has begun
  CHECK(process.Calls("f/a") == 0);
  gather->Begin(0, 1);
  gather->End(0);
  CHECK(process.Calls("f/a") == 1);
  gather->Begin(0, 2);  // fails
  const uint64_t failed = gather->Count(0);
  gather->Begin(0, 3);
  CHECK(gather->Count(0) != failed);
  CHECK(gather->Count(0) % 2 == 1);
  gather->End(0);
  gather->End(0);
  CHECK(process.Calls("f/a") == 2);
  CHECK(process.Add("f/a") == gather);
  CHECK(process.Add("f/b") != gather);
}

TEST_CASE("A PE waits for the others of its group that have not begun in this process") {
  Process process;
  MarkedCollective* const gather = process.Add("f/a");
  gather->Begin(0, 1);
  CHECK(gather->WaitsFor(0) == std::set<int>{1});
  gather->Begin(1, 1);
  CHECK(gather->WaitsFor(0).empty());
  gather->End(1);
  CHECK(gather->WaitsFor(0) == std::set<int>{1});
}

TEST_CASE("One that stays under way is told, without an end of the job, until it ends") {
  Process process;
  MarkedCollective* const gather = process.Add("f/a");
  gather->Begin(0, 1);
  const std::string first = process.Await("\n");
  CHECK(first.find("all-gather f/a at train.py:3 (64 bytes) of the default backend on PE 0 waits for PE 1; no progress "
                   "for ") == 0);
  CHECK(first.find("; goes on waiting\n") != std::string::npos);
  gather->End(0);
  gather->Begin(0, 2);
  CHECK(process.Calls("f/a") == 1);
  // The wait of the second execution begins anew.
  std::this_thread::sleep_for(60ms);
  gather->End(0);
  CHECK(process.Calls("f/a") == 2);
}

TEST_CASE("Many that follow one another are not taken for one that stays") {
  Process process(1s);
  MarkedCollective* const gather = process.Add("f/a");
  const auto end = std::chrono::steady_clock::now() + 2500ms;
  for (uint64_t run = 1; std::chrono::steady_clock::now() < end; ++run) {
    gather->Begin(0, run);
    std::this_thread::sleep_for(30ms);
    gather->End(0);
  }
  CHECK(process.lines().empty());
}

}  // namespace
}  // namespace xla_shmem
