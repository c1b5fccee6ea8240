#include "tests/simulator/plan.h"

#include <algorithm>

namespace xla_shmem::simulator {
namespace {

template <typename T>
T OneOf(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[random() % choices.size()];
}

bool Chance(Random& random, int percent) { return random() % 100 < static_cast<uint64_t>(percent); }

}  // namespace

Plan DrawPlan(uint64_t seed) {
  Random random(seed * 7919 + 17);
  Plan plan;
  plan.seed = seed;
  const int processes = OneOf(random, {1, 2, 2, 2, 3, 3, 4});
  const int pes_each = processes == 1 ? 2 : OneOf(random, {1, 1, 1, 2});
  for (int process = 0; process < processes; ++process) {
    plan.speeds.push_back(Chance(random, 25) ? 0.02 : 1);
    plan.starts_ns.push_back(Chance(random, 15) ? static_cast<int64_t>(random() % 200'000) : 0);
    for (int pe = 0; pe < pes_each; ++pe) plan.process_of_pe.push_back(process);
  }
  plan.threads = OneOf(random, {1, 1, 2});
  plan.rounds = OneOf(random, {1, 2, 3});
  plan.operations = OneOf(random, {1, 2, 3, 6, 12});
  plan.largest = OneOf<size_t>(random, {512, 16 << 10, 40 << 10, 200 << 10, 700 << 10});
  if (plan.largest > (100 << 10)) plan.operations = std::min(plan.operations, 3);
  plan.arena_bytes = OneOf<size_t>(random, {16 << 10, 256 << 10, 4 << 20});
  plan.reserve_bytes = static_cast<size_t>(2 * plan.operations) * plan.n_pes() * (8 << 10) + (64 << 10);
  plan.llc_share = OneOf<size_t>(random, {1 << 10, SIZE_MAX});
  plan.single_copy = OneOf(random, {shm::SingleCopy::kOff, shm::SingleCopy::kAlways, shm::SingleCopy::kAlways});
  plan.spin = std::chrono::microseconds(OneOf(random, {0, 3, 20}));

  if (processes > 1 && Chance(random, 35)) {
    plan.fault = OneOf(random, {Fault::kKilled, Fault::kStopped});
    plan.faulty = static_cast<int>(random() % static_cast<uint64_t>(processes));
    plan.fault_ns = static_cast<int64_t>(random() % OneOf<uint64_t>(random, {50'000, 500'000, 3'000'000}));
    if (plan.fault == Fault::kStopped) {
      plan.stopped_ns = OneOf<int64_t>(random, {50'000, 5'000'000, 400'000'000, 3'000'000'000});
    }
    // Longer and shorter than the stop.
    plan.deadline = std::chrono::milliseconds(OneOf(random, {300, 1000, 30'000}));
  }

  plan.scheduler.seed = seed;
  plan.scheduler.switch_chance = OneOf(random, {0.5, 0.1, 0.02, 0.004});
  plan.scheduler.tick_ns = OneOf(random, {5.0, 40.0}) / processes;
  plan.memory.fresh_chance = OneOf(random, {0.5, 0.9, 0.2});
  plan.memory.staleness_ns = OneOf<int64_t>(random, {2'000, 20'000, 200'000});
  plan.system.processors = OneOf(random, {2, 64});
  plan.system.spurious_wakeups = OneOf(random, {0.0, 0.1});
  if (plan.single_copy != shm::SingleCopy::kOff && Chance(random, 30)) {
    plan.system.refused_reads = 0.05;
    plan.system.partial_reads = 0.3;
  }
  if (Chance(random, 5)) plan.system.refused_threads = 0.3;
  return plan;
}

Plan LargePlan(uint64_t seed, int pes) {
  Plan plan;
  plan.seed = seed;
  for (int pe = 0; pe < pes; ++pe) plan.process_of_pe.push_back(pe);
  plan.speeds.assign(static_cast<size_t>(pes), 1);
  plan.starts_ns.assign(static_cast<size_t>(pes), 0);
  plan.operations = 3;
  plan.largest = 24 << 10;
  plan.arena_bytes = 4 << 20;
  plan.reserve_bytes = 1 << 20;
  plan.ring_only = true;
  // Each poll of each process takes its turn, so a wait that spins costs the more the larger the job.
  plan.spin = std::chrono::microseconds(0);
  plan.scheduler.seed = seed;
  plan.scheduler.switch_chance = 0.02;
  plan.scheduler.tick_ns = 20.0 / pes;
  plan.scheduler.stack_bytes = 64 << 10;
  plan.scheduler.weak_memory = false;
  return plan;
}

std::string Describe(const Plan& plan) {
  std::string text = std::to_string(plan.processes()) + " processes, " + std::to_string(plan.n_pes()) + " PEs, " +
                     std::to_string(plan.rounds) + " rounds of " + std::to_string(plan.operations) +
                     " operations of up to " + std::to_string(plan.largest) + " bytes, " +
                     (plan.single_copy == shm::SingleCopy::kOff ? "no cross-memory reads" : "cross-memory reads");
  if (plan.system.refused_reads > 0) text += " that may be refused";
  if (plan.refuses_threads()) text += ", threads refused";
  if (plan.fault == Fault::kNone) return text;
  text += ", process " + std::to_string(plan.faulty) + (plan.fault == Fault::kKilled ? " killed" : " stopped") +
          " after " + std::to_string(plan.fault_ns / 1000) + " us";
  if (plan.fault == Fault::kStopped) text += " for " + std::to_string(plan.stopped_ns / 1000) + " us";
  return text + ", deadline " + std::to_string(plan.deadline.count() / 1'000'000) + " ms";
}

}  // namespace xla_shmem::simulator
