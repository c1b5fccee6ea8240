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
      if (!meetings.Meet(7, Place::kBefore, members[i], members, kGoOn).ok() || came != 4) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(meetings.Meet(7, Place::kBefore, 5, members, kGoOn).ok());  // alone: would wait
}

TEST_CASE("operations, groups and places meet apart") {
  LocalMeetings meetings;
  std::atomic<bool> passed{false};
  const Members first{0, 1}, second{2, 3};
  const auto meet = [&](Place place, int pe, const Members& members) {
    CHECK(meetings.Meet(7, place, pe, members, kGoOn).ok());
  };
  std::thread waiting([&] {
    meet(Place::kBefore, 0, first);
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread apart([&] { meet(Place::kBefore, 2, second); });
  std::thread behind([&] { meet(Place::kBehind, 0, first); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!passed);
  meet(Place::kBefore, 3, second);
  CHECK(!meetings.IsOver(7, 1));
  meet(Place::kBehind, 1, first);
  CHECK((meetings.IsOver(7, 0) && meetings.IsOver(7, 1) && !meetings.IsOver(7, 2) && !meetings.IsOver(8, 0)));
  CHECK(!passed);
  meet(Place::kBefore, 1, first);
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
    const Status status =
        meetings.Meet(7, Place::kBefore, 6, members, [&](std::chrono::nanoseconds waited, const Members& missing) {
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
    CHECK(meetings.Meet(7, Place::kBefore, 9, members, kGoOn).ok());
  });
  CHECK(meetings
            .Meet(7, Place::kBefore, 4, members,
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
  CHECK(meetings.Meet(8, Place::kBefore, 0, {0}, kGoOn).ok());
}

}  // namespace
}  // namespace xla_shmem
