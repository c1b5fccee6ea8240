// PEs as real processes, also when one of them is killed.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/storm.h"

namespace xla_shmem::testing {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t Milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch()).count();
}

StormPlan PlanFor(uint64_t seed, int rounds) {
  StormPlan plan;
  plan.seed = seed;
  plan.rounds = rounds;
  return plan;
}

JobOptions OptionsFor(const StormPlan& plan, int processes) {
  JobOptions options;
  options.n_pes = processes;
  options.reserve_bytes = ReserveFor(plan, processes);
  // Half of the runs use cross-memory reads, whether they are faster here or not; of those, half try slots too.
  options.single_copy = plan.seed % 2 != 0   ? shm::SingleCopy::kOff
                        : plan.seed % 4 == 0 ? shm::SingleCopy::kAlways
                                             : shm::SingleCopy::kAuto;
  return options;
}

TEST_CASE("Real processes end a storm with the right bytes and leave nothing in /dev/shm" *
          doctest::skip(kBlindToOtherProcesses)) {
  for (int run = 0; run < 4; ++run) {
    const int processes = run < 2 ? 2 : 4;
    const shm::JobKey key = RandomJobKey();
    const StormPlan plan = PlanFor(10 + run, 15);
    ProcessGroup group(processes);
    group.Start([&](int rank) -> std::string {
      const JobOptions options = OptionsFor(plan, processes);
      Job job(options, HeapOfProcesses(group, key, rank, processes, Job::HeapBytes(options)));
      const std::string verdict = RunStorm(job, rank, plan);
      return verdict;  // ends at once: a process may exit as soon as its own part is done
    });
    CHECK(group.Join() == std::vector<std::string>(processes, ""));
    CHECK(SegmentsOf(key).empty());
  }
}

TEST_CASE("When a process is killed, the others name operation, PE and process within two seconds and leave nothing" *
          doctest::skip(kBlindToOtherProcesses)) {
  constexpr int kProcesses = 3;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const int victim = attempt % kProcesses;
    const shm::JobKey key = RandomJobKey();
    const StormPlan plan = PlanFor(100 + attempt, 1000000);
    ProcessGroup group(kProcesses);
    group.Start([&](int rank) -> std::string {
      const JobOptions options = OptionsFor(plan, kProcesses);
      Job job(options, HeapOfProcesses(group, key, rank, kProcesses, Job::HeapBytes(options)));
      group.word(0).fetch_add(1);
      const std::string error = RunStorm(job, rank, plan);
      const uint64_t took = Milliseconds() - group.word(1);
      return took < 2000 ? error : "only after " + std::to_string(took) + " ms: " + error;
    });
    while (group.word(0) < kProcesses) usleep(1000);
    usleep(50000 + 37000 * attempt);
    group.word(1) = Milliseconds();
    group.Signal(victim, SIGKILL);
    CHECK(group.Join(victim) == "signal 9");
    const std::string culprit = "process " + std::to_string(victim) + " (PE " + std::to_string(victim) + ") has exited";
    for (int rank = 0; rank < kProcesses; ++rank) {
      if (rank == victim) continue;
      const std::string error = group.Join(rank);
      INFO(error);
      CHECK(error.find(culprit) != std::string::npos);
      const bool named = error.find(" bytes") != std::string::npos && error.find(" on PE ") != std::string::npos;
      CHECK((named || error.find("gave up: ") != std::string::npos));
    }
    CHECK(SegmentsOf(key).empty());
  }
}

}  // namespace
}  // namespace xla_shmem::testing
