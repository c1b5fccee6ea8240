#include "xla_patch/nvshmem/gpu/start_limit.h"

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xla_shmem::testing {
namespace {

using gpu::StartLimit;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What the limit of a start reported.
class Reports {
 public:
  StartLimit::OnEvent OnEvent() {
    return [this](StartLimit::Event event, const std::string& reason) {
      const std::lock_guard<std::mutex> lock(mutex_);
      events_.emplace_back(event, reason);
      changed_.notify_all();
    };
  }
  // Waits for so many.
  std::vector<std::pair<StartLimit::Event, std::string>> Wait(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return events_.size() >= count; }));
    return events_;
  }
  size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return events_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<StartLimit::Event, std::string>> events_;
};

constexpr milliseconds kShort{100};
constexpr milliseconds kLong{3'600'000};

TEST_CASE("A start that ends in time is not reported, and does not wait for its limit") {
  Reports reports;
  const auto begin = steady_clock::now();
  {
    const StartLimit limit(2, kLong, [](int) { return std::optional<Status>(); }, reports.OnEvent());
  }
  CHECK(steady_clock::now() - begin < kLong);
  CHECK(reports.count() == 0);
}

TEST_CASE("A start that nothing ends is reported once with the processes that have not finished, and then ended") {
  Reports reports;
  const auto begin = steady_clock::now();
  const StartLimit limit(
      3, kShort, [](int process) { return process == 1 ? std::optional<Status>(Status()) : std::nullopt; },
      reports.OnEvent());
  const auto events = reports.Wait(2);
  CHECK(steady_clock::now() - begin >= StartLimit::kLimit * kShort);
  CHECK(events.size() == 2);
  CHECK(events[0].first == StartLimit::Event::kLate);
  CHECK(events[1].first == StartLimit::Event::kStuck);
  CHECK(events[0].second ==
        "NVSHMEM has not started within 0.1 s; processes 0, 2 have not finished, NVSHMEM_DEBUG=INFO shows their "
        "progress");
}

TEST_CASE("A start that waits for a failed process ends with its reason before the limit") {
  Reports reports;
  const milliseconds patience{2000};
  const auto begin = steady_clock::now();
  const StartLimit limit(
      2, patience,
      [](int process) { return process == 1 ? std::optional<Status>(Status::Error("no luck")) : std::nullopt; },
      reports.OnEvent());
  const auto events = reports.Wait(2);
  const auto took = steady_clock::now() - begin;
  CHECK(events[1].first == StartLimit::Event::kStuck);
  CHECK(events[1].second == "NVSHMEM has not started within 2 s; process 1: no luck");
  CHECK(took >= patience);
  CHECK(took < StartLimit::kLimit * patience);
}

}  // namespace
}  // namespace xla_shmem::testing
