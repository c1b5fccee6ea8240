#include "xla_patch/thunks/gpu/local_meetings.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace xla_shmem {
namespace {

using Place = LocalMeetings::Place;

TEST_CASE("nobody goes on before all have come, and later runs do not wait") {
  LocalMeetings meetings(std::chrono::seconds(60));
  std::atomic<int> came{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * i));
      ++came;
      meetings.Meet(7, 0, Place::kBefore, 4);
      if (came != 4) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  meetings.Meet(7, 0, Place::kBefore, 4);  // alone: would wait a minute
}

TEST_CASE("operations, groups and places meet apart") {
  LocalMeetings meetings(std::chrono::seconds(60));
  std::atomic<bool> passed{false};
  std::thread waiting([&] {
    meetings.Meet(7, 0, Place::kBefore, 2);
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::thread apart([&] { meetings.Meet(7, 2, Place::kBefore, 2); });
  std::thread behind([&] { meetings.Meet(7, 0, Place::kBehind, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!passed);
  meetings.Meet(7, 2, Place::kBefore, 2);
  meetings.Meet(7, 0, Place::kBehind, 2);
  meetings.Meet(7, 0, Place::kBefore, 2);
  waiting.join();
  apart.join();
  behind.join();
  CHECK(passed);
}

TEST_CASE("who waits in vain goes on, and so do all later ones") {
  LocalMeetings meetings(std::chrono::milliseconds(30));
  const auto begin = std::chrono::steady_clock::now();
  meetings.Meet(7, 0, Place::kBefore, 2);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(30));
  meetings.Meet(7, 0, Place::kBefore, 2);
  meetings.Meet(8, 0, Place::kBefore, 1);  // alone in the process
}

}  // namespace
}  // namespace xla_shmem
