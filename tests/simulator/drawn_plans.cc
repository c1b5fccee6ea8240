#include <algorithm>

#include "tests/simulator/plan.h"

namespace xla_shmem::simulator {
namespace {

template <typename T>
T OneOf(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[random() % choices.size()];
}

bool Chance(Random& random, int percent) { return random() % 100 < static_cast<uint64_t>(percent); }

// One process comes to its operations when the others have given up on it. The memory that they had offered it is no
// longer theirs, but they still live.
void MakeLate(Random& random, Plan* plan) {
  plan->operations = 2;
  plan->sizes = {200 << 10, 50 << 10};
  plan->single_copy = shm::SingleCopy::kAlways;
  const auto late = static_cast<int>(random() % static_cast<uint64_t>(plan->processes()));
  plan->faults = {{Fault::Kind::kStopped, late, static_cast<int64_t>(random() % 20'000), 700'000'000}};
  plan->deadline = std::chrono::milliseconds(300);
  plan->linger_ns = 4'000'000'000;
}

// One process stops midway, while another that has all it needs ends.
void MakeAbsent(Random& random, Plan* plan) {
  plan->rounds = 1;
  plan->sizes = {100 << 10, 50 << 10};
  plan->single_copy = shm::SingleCopy::kAlways;
  const auto absent = static_cast<int>(random() % static_cast<uint64_t>(plan->processes()));
  plan->faults = {{Fault::Kind::kStopped, absent, static_cast<int64_t>(random() % 60'000), 700'000'000}};
  plan->deadline = std::chrono::seconds(30);
  plan->linger_ns = 0;
  plan->system.refused_reads = 0.1;
}

// Large messages whose reads are refused midway, and ends that sleep at once.
void MakeRefused(Plan* plan) {
  plan->sizes = {200 << 10, 50 << 10};
  plan->single_copy = shm::SingleCopy::kAlways;
  plan->spin = std::chrono::microseconds(0);
  plan->system.refused_reads = 0.2;
  plan->system.partial_reads = 0.3;
}

// One of two processes is killed. The other is so slow that it learns of that while its threads are at work on
// collectives that need no messages.
void MakeSlow(Random& random, Plan* plan) {
  plan->process_of_pe = {0, 0, 0, 1};
  plan->speeds = {1, 1};
  plan->starts_ns = {0, 0};
  plan->threads = 2;
  plan->rounds = 1;
  plan->operations = 6;
  plan->sizes = {100 << 10, 50 << 10};
  plan->scarce = false;
  plan->arena_bytes = 4 << 20;
  plan->reserve_bytes = 4 << 20;
  plan->faults = {{Fault::Kind::kKilled, 1, static_cast<int64_t>(random() % 10'000)}};
  plan->deadline = std::chrono::seconds(30);
  plan->linger_ns = 0;
  plan->system.refused_threads = 0;
  plan->scheduler.tick_ns = OneOf(random, {40'000.0, 100'000.0, 200'000.0});
  plan->scheduler.pause_chance = 0;
  plan->scheduler.pause_ns = 0;
}

// Nothing but what a plan of these kinds is about.
void MakeCalm(Plan* plan) {
  plan->rounds = 1;
  plan->operations = 3;
  plan->sizes = {40 << 10};
  plan->scarce = false;
  plan->arena_bytes = 4 << 20;
  plan->reserve_bytes = 4 << 20;
  plan->starts_ns.assign(plan->starts_ns.size(), 0);
  plan->speeds.assign(plan->speeds.size(), 1);
  plan->in_process = false;
  plan->faults.clear();
  plan->deadline = std::chrono::nanoseconds(kForEver);
  plan->linger_ns = 0;
  plan->system.refused_threads = 0;
  plan->scheduler.pause_chance = 0;
  plan->scheduler.pause_ns = 0;
}

// One process comes so late that the others say so, or nearly so. The job goes on. A process that was
// stopped itself, for longer than its deadline, has not waited.
void MakeUnhurried(Random& random, Plan* plan) {
  MakeCalm(plan);
  plan->answers = true;
  plan->faults_are_harmless = true;
  plan->late_after = std::chrono::seconds(1);
  const auto late = static_cast<int>(random() % static_cast<uint64_t>(plan->processes()));
  plan->faults = {{Fault::Kind::kLate, late, 0, OneOf<int64_t>(random, {700'000'000, 4'500'000'000, 20'000'000'000})}};
  if (plan->processes() == 2 && Chance(random, 50)) {
    plan->faults[0].for_ns = 4'500'000'000;
    Fault stop{Fault::Kind::kStopped, 1 - late, 100'000'000, 3'500'000'000};
    if (Chance(random, 50)) {
      // As it looks for the last time before its deadline. When it goes on, all that it waits for has come.
      stop.at_ns = 2'850'000'000;
      stop.steps = 1 + static_cast<int64_t>(random() % 60);
    }
    plan->faults.push_back(stop);
    plan->deadline = std::chrono::seconds(3);
    plan->late_after = std::chrono::seconds(60);
    return;
  }
  // Once more in the next round.
  plan->rounds = 2;
  plan->faults.push_back({Fault::Kind::kLate, late, 0, 2'600'000'000, /*round=*/1});
}

// The program of one process ends before its operations, or is another one, or the process dies. The others learn of
// it though no deadline is set.
void MakeAstray(Random& random, Plan* plan) {
  MakeCalm(plan);
  const auto process = static_cast<int>(random() % static_cast<uint64_t>(plan->processes()));
  if (Chance(random, 20)) {
    // Or it comes when the deadline has long passed.
    plan->deadline = std::chrono::seconds(1);
    plan->faults = {{Fault::Kind::kLate, process, 0, 20'000'000'000}};
    return;
  }
  plan->linger_ns = 4'000'000'000;
  plan->within_ns = 2'000'000'000;
  using Kind = Fault::Kind;
  plan->faults = {{OneOf(random, {Kind::kEnds, Kind::kKilled, Kind::kOther, Kind::kOther}), process, 0}};
  if (plan->Has(Kind::kKilled)) plan->faults[0].at_ns = static_cast<int64_t>(random() % 20'000);
  if (!plan->Has(Kind::kOther)) return;
  plan->other = OneOf(random, {OtherProgram::kOfOtherName, OtherProgram::kOfOneName, OtherProgram::kOfOneForm});
  plan->within_ns = 3'000'000'000;
  if (plan->other == OtherProgram::kOfOtherName) {
    // It may still be on its way to this program, until it is late.
    plan->late_after = std::chrono::milliseconds(1500);
  } else if (Chance(random, 50)) {
    plan->faults.push_back({Kind::kLate, process, 0, 2'500'000'000});
  }
}

// Two threads of each process run a program each. One of the programs takes long to compile, in each process another
// one. Until then each process waits in a program that the other has not loaded.
void MakeCompiling(Plan* plan) {
  MakeCalm(plan);
  plan->rounds = 2;
  plan->crowded = true;
  plan->programs_at_once = true;
  plan->faults_are_harmless = true;
  plan->faults = {{Fault::Kind::kLate, 0, 0, 5'500'000'000, /*round=*/0},
                  {Fault::Kind::kLate, 1, 0, 5'500'000'000, /*round=*/1}};
}

// One process is late in a collective of the default backend, or ends before it. That is said, and fails nothing.
void MakeForeign(Random& random, Plan* plan) {
  MakeCalm(plan);
  plan->foreign = true;
  plan->faults_are_harmless = true;
  plan->late_after = std::chrono::seconds(1);
  plan->deadline = std::chrono::seconds(2);
  const auto process = static_cast<int>(random() % static_cast<uint64_t>(plan->processes()));
  plan->faults = {{Fault::Kind::kLate, process, 0, 4'500'000'000}};
  plan->answers = Chance(random, 50);
  if (!plan->answers) plan->faults = {{Fault::Kind::kEnds, process, 0}};
}

// One process is stopped for some time once or twice, or for good, or by a debugger, which may take its time.
void MakeHeld(Random& random, Plan* plan) {
  MakeCalm(plan);
  plan->late_after = std::chrono::seconds(1);
  const auto held = static_cast<int>(random() % static_cast<uint64_t>(plan->processes()));
  if (Chance(random, 40)) {
    plan->faults = {{Fault::Kind::kStopped, held, static_cast<int64_t>(random() % 20'000), kForEver}};
    plan->within_ns = 3'000'000'000;
    return;
  }
  plan->faults_are_harmless = true;
  // Late first, so that the others wait for it all the time.
  if (Chance(random, 30)) {
    plan->faults = {{Fault::Kind::kLate, held, 0, 2'000'000'000},
                    {Fault::Kind::kTraced, held, 50'000'000, 6'000'000'000}};
    return;
  }
  plan->faults = {{Fault::Kind::kLate, held, 0, 2'000'000'000},
                  {Fault::Kind::kStopped, held, 50'000'000, 700'000'000},
                  {Fault::Kind::kStopped, held, 1'100'000'000, 700'000'000}};
}

// One process is stopped past the deadline of the two others. One of them gives up, the other follows it. Then the
// first comes back and reads what the one that follows had offered.
void MakeFollowed(Random& random, Plan* plan) {
  MakeCalm(plan);
  plan->process_of_pe = {0, 1, 2};
  plan->speeds = {1, 1, 1};
  plan->starts_ns = {0, 0, 0};
  plan->ring_only = true;
  plan->operations = 4;
  plan->sizes = {100 << 10, 50 << 10};
  plan->single_copy = shm::SingleCopy::kAlways;
  plan->deadline = std::chrono::milliseconds(300);
  plan->linger_ns = 4'000'000'000;
  const auto late = static_cast<int>(random() % 3);
  plan->faults = {{Fault::Kind::kStopped, late, static_cast<int64_t>(random() % 20'000), 700'000'000}};
}

// All moves, and so slowly that a transfer takes longer than the deadline.
void MakeCreeping(Random& random, Plan* plan) {
  MakeCalm(plan);
  plan->operations = 1;
  plan->sizes = {700 << 10, 500 << 10};
  plan->single_copy = shm::SingleCopy::kOff;
  plan->arena_bytes = 16 << 10;
  plan->deadline = std::chrono::seconds(2);
  // With more PEs the processes take longer to come round to one transfer.
  plan->scheduler.tick_ns = plan->n_pes() <= 3 ? OneOf(random, {100'000.0, 130'000.0}) : 20'000.0;
}

// Every process runs a copy of each program that differs. Programs may have one form, so that only their order tells
// which belong together. A process may exit when its part is done, which the others have not found yet.
void MakeCopies(Random& random, Plan* plan) {
  const testing::Sizes sizes = plan->sizes;
  MakeCalm(plan);
  plan->rounds = OneOf(random, {1, 2});
  plan->sizes = sizes;
  plan->copies = true;
  plan->crowded = Chance(random, 50);
  plan->one_form = Chance(random, 50);
  plan->leaves_early = Chance(random, 30);
  if (!Chance(random, 40)) return;
  // One loads its programs while the others search its record.
  plan->faults_are_harmless = true;
  plan->load_ns = 100'000'000;
  plan->faults = {{Fault::Kind::kLate, static_cast<int>(random() % static_cast<uint64_t>(plan->processes())), 0,
                   900'000'000 + static_cast<int64_t>(random() % 1'300'000'000)}};
}

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
  plan.sizes.largest = OneOf<size_t>(random, {512, 16 << 10, 40 << 10, 200 << 10, 700 << 10});
  if (Chance(random, 30)) plan.sizes.smallest = plan.sizes.largest / 2;
  if (plan.sizes.largest > (100 << 10)) plan.operations = std::min(plan.operations, 3);
  plan.crowded = Chance(random, 40);
  plan.arena_bytes = OneOf<size_t>(random, {16 << 10, 256 << 10, 4 << 20});
  plan.reserve_bytes = static_cast<size_t>(2 * plan.operations) * plan.n_pes() * (8 << 10) + (64 << 10);
  if (Chance(random, 10)) {
    // Too little for all operations at once: they wait for one another's slots.
    plan.scarce = true;
    plan.arena_bytes = 16 << 10;
    plan.reserve_bytes = 64 << 10;
  }
  plan.llc_share = OneOf<size_t>(random, {1 << 10, SIZE_MAX});
  plan.single_copy = OneOf(random, {shm::SingleCopy::kOff, shm::SingleCopy::kAlways, shm::SingleCopy::kAlways});
  plan.spin = std::chrono::microseconds(OneOf(random, {0, 3, 20}));

  if (processes > 1 && Chance(random, 40)) {
    const auto any_process = [&] { return static_cast<int>(random() % static_cast<uint64_t>(processes)); };
    const auto any_time = [&] {
      return static_cast<int64_t>(random() % OneOf<uint64_t>(random, {50'000, 500'000, 3'000'000}));
    };
    const bool kills = Chance(random, 50);
    if (kills) plan.faults.push_back({Fault::Kind::kKilled, any_process(), any_time()});
    if (!kills || Chance(random, 50)) {
      // Shorter and longer than the deadline, and than the time in which others learn of a failure.
      plan.faults.push_back({Fault::Kind::kStopped, any_process(), any_time(),
                             OneOf<int64_t>(random, {50'000, 5'000'000, 400'000'000, 3'000'000'000})});
    }
    plan.deadline = std::chrono::milliseconds(OneOf(random, {300, 1000, 30'000}));
    plan.linger_ns = OneOf<int64_t>(random, {0, 4'000'000'000});
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
  if (Chance(random, 25)) {
    plan.scheduler.pause_chance = OneOf(random, {1e-5, 1e-4, 1e-3});
    plan.scheduler.pause_ns = OneOf<int64_t>(random, {100'000, 20'000'000, 200'000'000});
  }
  if (processes > 2 && Chance(random, 30)) {
    (Chance(random, 50) ? MakeLate : MakeAbsent)(random, &plan);
  } else if (processes > 1 && plan.faults.empty() && Chance(random, 15)) {
    MakeRefused(&plan);
  }
  // By the seed alone, so that the plans of other seeds stay as they were when this came.
  plan.in_process = seed % 4 == 1;
  if (seed % 2 == 0) plan.system.with_shared_buffers = seed % 16 == 0 ? processes - 1 : processes;
  if (seed % 8 == 2 && plan.single_copy == shm::SingleCopy::kAlways) plan.single_copy = shm::SingleCopy::kAuto;
  if (seed % 16 == 9) MakeSlow(random, &plan);
  if (processes > 1) {
    if (seed % 16 == 3) MakeUnhurried(random, &plan);
    if (seed % 16 == 15) MakeAstray(random, &plan);
    if (seed % 16 == 7) MakeHeld(random, &plan);
    if (seed % 16 == 12) MakeCreeping(random, &plan);
    if (seed % 16 == 8) MakeCopies(random, &plan);
    if (seed % 32 == 14) MakeCompiling(&plan);
    if (seed % 32 == 6) MakeForeign(random, &plan);
    if (seed % 32 == 0) MakeFollowed(random, &plan);
  }
  plan.system.must_be_woken =
      plan.must_succeed() && plan.faults.empty() && plan.scheduler.pause_ns == 0 && !plan.copies;
  return plan;
}

Plan LargePlan(uint64_t seed, int pes) {
  Plan plan;
  plan.seed = seed;
  for (int pe = 0; pe < pes; ++pe) plan.process_of_pe.push_back(pe);
  plan.speeds.assign(static_cast<size_t>(pes), 1);
  plan.starts_ns.assign(static_cast<size_t>(pes), 0);
  plan.operations = 3;
  plan.sizes = {24 << 10};
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

}  // namespace xla_shmem::simulator
