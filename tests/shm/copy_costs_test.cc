#include "xla_patch/shm/copy_costs.h"

#include <dirent.h>
#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>

namespace xla_shmem::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr size_t kBytes = 512 << 10;

int Threads() {
  DIR* directory = opendir("/proc/self/task");
  int threads = 0;
  while (const dirent* entry = readdir(directory)) threads += entry->d_name[0] != '.';
  closedir(directory);
  return threads;
}

void CheckPlausible(const CopyCosts& costs) {
  // Half a MiB in 2 us would be 260 GB/s.
  CHECK(costs.cross_memory_read > microseconds(2));
  CHECK(costs.through_slots > microseconds(4));
  CHECK(costs.cross_memory_read < milliseconds(100));
  CHECK(costs.through_slots < milliseconds(100));
}

TEST_CASE("Copies between two cores are timed, and leave no thread and no changed affinity") {
  cpu_set_t before, after;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  const std::optional<CopyCosts> costs = MeasureCopies(kBytes);
  REQUIRE(costs.has_value());
  CheckPlausible(*costs);
  const int threads = Threads();  // ThreadSanitizer starts a thread of its own with the first thread
  for (int again = 0; again < 5; ++again) REQUIRE(MeasureCopies(kBytes).has_value());
  REQUIRE(sched_getaffinity(0, sizeof(after), &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
  // The system may still list a thread shortly after its join.
  for (int look = 0; Threads() > threads && look < 100; ++look) usleep(10000);
  CHECK(Threads() <= threads);
}

TEST_CASE("A longer message costs more, also if it is longer than the slots") {
  const std::optional<CopyCosts> small = MeasureCopies(kBytes / 8), large = MeasureCopies(kBytes * 4 + 4096);
  REQUIRE(small.has_value());
  REQUIRE(large.has_value());
  CHECK(large->cross_memory_read > small->cross_memory_read * 4);
  CHECK(large->through_slots > small->through_slots * 4);
}

TEST_CASE("A process that is bound to one processor measures too") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  const std::optional<CopyCosts> costs = MeasureCopies(kBytes);
  sched_setaffinity(0, sizeof(before), &before);
  REQUIRE(costs.has_value());
  CheckPlausible(*costs);
}

}  // namespace
}  // namespace xla_shmem::shm
