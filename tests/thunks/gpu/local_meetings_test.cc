#include "xla_patch/thunks/gpu/local_meetings.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace xla_shmem {
namespace {

using Place = LocalMeetings::Place;
using Members = std::vector<int>;

constexpr auto kGoOn = [](std::chrono::nanoseconds, const Members&) { return Status(); };

TEST_CASE("nobody goes on before all have come, and later runs do not wait") {
  LocalMeetings meetings;
  std::atomic<int> came{0};
  std::atomic<int> wrong{0};
  const Members members{3, 1, 2, 5};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([&, i] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * i));
      ++came;
      if (!meetings.Meet({Place::kBeforeFirst, 7}, members[i], members, kGoOn).ok() || came != 4) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(meetings.Meet({Place::kBeforeFirst, 7}, 5, members, kGoOn).ok());  // alone: would wait
}

TEST_CASE("the threads of a program meet in every run, and runs that are over are forgotten") {
  LocalMeetings meetings;
  constexpr int64_t kRuns = 200;
  const Members members{2, 0, 1};
  std::atomic<int> came[kRuns] = {};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (const int pe : members) {
    threads.emplace_back([&, pe] {
      for (int64_t run = 0; run < kRuns; ++run) {
        ++came[run];
        const bool met = meetings.Meet({Place::kBeforeRun, 7, run}, pe, members, kGoOn).ok();
        if (!met || came[run] != 3) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(meetings.remembered() == 0);
  CHECK(!meetings
             .Meet({Place::kBeforeRun, 7, 0}, 1, members,
                   [](std::chrono::nanoseconds, const Members&) { return Status::Error("alone"); })
             .ok());
}

TEST_CASE("operations, groups and places meet apart") {
  LocalMeetings meetings;
  std::atomic<bool> passed{false};
  const Members first{0, 1}, second{2, 3};
  const auto meet = [&](Place place, int pe, const Members& members) {
    CHECK(meetings.Meet({place, 7}, pe, members, kGoOn).ok());
  };
  std::thread waiting([&] {
    meet(Place::kBeforeFirst, 0, first);
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread apart([&] { meet(Place::kBeforeFirst, 2, second); });
  std::thread behind([&] { meet(Place::kBehindFirst, 0, first); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!passed);
  meet(Place::kBeforeFirst, 3, second);
  CHECK(!meetings.IsOver(7, 1));
  meet(Place::kBehindFirst, 1, first);
  CHECK((meetings.IsOver(7, 0) && meetings.IsOver(7, 1) && !meetings.IsOver(7, 2) && !meetings.IsOver(8, 0)));
  CHECK(!passed);
  meet(Place::kBeforeFirst, 1, first);
  waiting.join();
  apart.join();
  behind.join();
  CHECK(passed);
}

TEST_CASE("who waits is told for how long and for whom, and an error ends its wait alone") {
  LocalMeetings meetings;
  const Members members{4, 6, 9};
  std::thread other([&] {
    int looks = 0;
    const Status status = meetings.Meet(
        {Place::kBeforeFirst, 7}, 6, members, [&](std::chrono::nanoseconds waited, const Members& missing) {
          CHECK(waited >= looks * std::chrono::milliseconds(90));
          return ++looks < 3 ? Status() : Status::Error("gave up with " + std::to_string(missing.size()));
        });
    CHECK(status.message() == "gave up with 2");
    CHECK(looks == 3);
  });
  other.join();
  std::atomic<bool> told{false};
  std::thread late([&] {
    while (!told) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(meetings.Meet({Place::kBeforeFirst, 7}, 9, members, kGoOn).ok());
  });
  CHECK(meetings
            .Meet({Place::kBeforeFirst, 7}, 4, members,
                  [&](std::chrono::nanoseconds, const Members& missing) {
                    if (!told) CHECK(missing == Members{9});  // PE 6 has come, though it went
                    told = true;
                    return Status();
                  })
            .ok());
  late.join();
}

TEST_CASE("a member alone in its process meets nobody") {
  LocalMeetings meetings;
  CHECK(meetings.Meet({Place::kBeforeFirst, 8}, 0, {0}, kGoOn).ok());
}

}  // namespace
}  // namespace xla_shmem
