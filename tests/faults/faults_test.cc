// Kills, stops or pauses a process at a random point of a storm of collectives.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/storm.h"

namespace xla_shmem::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDeadline(1500);
// The time that a busy machine may add to the protocol's limits.
constexpr std::chrono::milliseconds kGrace(5000);

enum class Fault { kKilled, kStopped, kPaused };

struct Scenario {
  uint64_t seed;
  Fault fault;
  int processes;
  int victim;
  useconds_t after;  // microseconds after all have attached
};

Scenario Draw(uint64_t seed) {
  std::mt19937_64 random(seed);
  Scenario scenario{seed, static_cast<Fault>(seed % 3), 2 + static_cast<int>(random() % 3), 0, 0};
  scenario.victim = static_cast<int>(random() % scenario.processes);
  scenario.after = static_cast<useconds_t>(random() % 60000);
  return scenario;
}

StormPlan PlanFor(const Scenario& scenario) {
  StormPlan plan;
  plan.seed = scenario.seed;
  // A paused job has to finish; the others continue until the fault ends them.
  plan.rounds = scenario.fault == Fault::kPaused ? 12 : 1000000;
  plan.largest = 1 << 17;
  return plan;
}

uint64_t Runs() {
  const char* runs = std::getenv("XLA_SHMEM_FAULT_RUNS");
  return runs == nullptr ? 9 : strtoull(runs, nullptr, 10);
}

uint64_t FirstSeed() {
  const char* seed = std::getenv("XLA_SHMEM_FAULT_SEED");
  return seed == nullptr ? 1 : strtoull(seed, nullptr, 10);
}

// The results of the processes, and the time from the fault to the end of the last survivor.
struct Ending {
  std::vector<std::string> verdicts;
  std::chrono::milliseconds took;
};

Ending Run(const Scenario& scenario, const shm::JobKey& key) {
  ProcessGroup group(scenario.processes);
  group.Start([&](int rank) -> std::string {
    const StormPlan plan = PlanFor(scenario);
    JobOptions options;
    options.n_pes = scenario.processes;
    options.reserve_bytes = ReserveFor(plan, scenario.processes);
    options.deadline = kDeadline;
    options.single_copy = scenario.seed % 2 != 0   ? shm::SingleCopy::kOff
                          : scenario.seed % 4 == 0 ? shm::SingleCopy::kAlways
                                                   : shm::SingleCopy::kAuto;
    Job job(options, HeapOfProcesses(group, key, rank, scenario.processes, Job::HeapBytes(options)));
    group.word(0).fetch_add(1);
    return RunStorm(job, rank, plan);
  });
  while (group.word(0) < static_cast<uint64_t>(scenario.processes)) usleep(1000);
  usleep(scenario.after);
  group.Signal(scenario.victim, scenario.fault == Fault::kKilled ? SIGKILL : SIGSTOP);
  const Clock::time_point start = Clock::now();
  if (scenario.fault == Fault::kPaused) {
    usleep(static_cast<useconds_t>(kDeadline.count() * 1000 / 5));
    group.Signal(scenario.victim, SIGCONT);
  }
  Ending ending;
  ending.verdicts.resize(scenario.processes);
  for (int rank = 0; rank < scenario.processes; ++rank) {
    if (rank != scenario.victim) ending.verdicts[rank] = group.Join(rank);
  }
  ending.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  if (scenario.fault == Fault::kStopped) group.Signal(scenario.victim, SIGKILL);
  ending.verdicts[scenario.victim] = group.Join(scenario.victim);
  return ending;
}

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Returns "" if all processes ended as expected.
std::string Check(const Scenario& scenario, const Ending& ending) {
  const std::string culprit = "PE " + std::to_string(scenario.victim);
  for (int rank = 0; rank < scenario.processes; ++rank) {
    const std::string& said = ending.verdicts[rank];
    const std::string who = "rank " + std::to_string(rank) + ": \"" + said + "\"";
    if (scenario.fault == Fault::kPaused) {
      if (!said.empty()) return who + ", though the victim went on well before the deadline";
    } else if (rank == scenario.victim) {
      if (said != "signal 9") return who + ", though it was killed";
    } else if (scenario.fault == Fault::kKilled) {
      if (!Contains(said, "(" + culprit + ") has exited")) return who + " does not name the process that was killed";
    } else if (!Contains(said, "gave up after the deadline of 1.5 s (XLA_SHMEM_DEADLINE); process") ||
               !Contains(said, "(" + culprit + ") is stopped")) {
      return who + " does not say that the deadline has passed because of the process that was stopped";
    }
    for (int other = 0; other < scenario.processes; ++other) {
      const std::string pe = "PE " + std::to_string(other);
      if (other == scenario.victim) continue;
      if (Contains(said, "(" + pe + ")") || Contains(said, "; " + pe + " has") || Contains(said, "operation: " + pe)) {
        return who + " names " + pe;
      }
    }
  }
  const auto limit = scenario.fault == Fault::kStopped ? kDeadline + kGrace : kGrace;
  if (scenario.fault != Fault::kPaused && ending.took > limit) {
    return "the last survivor ended " + std::to_string(ending.took.count()) + " ms after the fault";
  }
  return "";
}

TEST_CASE(
    "When a process is killed, stopped or paused, all others end in time, with results or the reason, and leave "
    "nothing" *
    doctest::skip(kBlindToOtherProcesses)) {
  int faults[3] = {0, 0, 0};
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + Runs(); ++seed) {
    const Scenario scenario = Draw(seed);
    const shm::JobKey key = RandomJobKey();
    const Ending ending = Run(scenario, key);
    INFO("XLA_SHMEM_FAULT_SEED=" << seed << " XLA_SHMEM_FAULT_RUNS=1");
    CHECK(Check(scenario, ending) == "");
    CHECK(SegmentsOf(key).empty());
    ++faults[static_cast<int>(scenario.fault)];
  }
  MESSAGE("killed ", faults[0], ", stopped ", faults[1], ", paused ", faults[2]);
}

}  // namespace
}  // namespace xla_shmem::testing
