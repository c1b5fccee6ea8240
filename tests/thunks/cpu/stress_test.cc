// PEs as threads of one process. Runs for XLA_SHMEM_STRESS_SECONDS seconds (default 6).
#include <doctest/doctest.h>

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

TEST_CASE("Random collectives in random orders, with random arenas, all end with the right bytes") {
  const char* wanted = getenv("XLA_SHMEM_STRESS_SECONDS");
  const Clock::time_point until = Clock::now() + std::chrono::seconds(wanted == nullptr ? 6 : atoi(wanted));
  std::mt19937_64 random(wanted == nullptr ? 1 : std::random_device()());
  int jobs = 0, operations = 0;
  while (Clock::now() < until) {
    StormPlan plan;
    plan.seed = 1 + random() % 100000;
    plan.operations = 1 + static_cast<int>(random() % 48);
    plan.threads = 1 + static_cast<int>(random() % 3);
    plan.rounds = 8;
    plan.largest = size_t{1} << (8 + random() % 12);
    JobOptions options;
    options.n_pes = 1 + static_cast<int>(random() % 6);
    options.arena_bytes = size_t{1} << (14 + random() % 9);
    options.reserve_bytes = ReserveFor(plan, options.n_pes);
    options.spin = std::chrono::microseconds(random() % 3 == 0 ? 0 : random() % 100);
    options.single_copy = random() % 2 == 0 ? shm::SingleCopy::kAlways : shm::SingleCopy::kOff;
    options.in_process = random() % 3 == 0;
    Job job(options);
    std::vector<size_t> before;
    for (int pe = 0; pe < options.n_pes; ++pe) {
      before.push_back(job.FreeBlocks(pe, options.arena_bytes) + job.FreeReserveBlocks(pe, 8192));
    }
    std::vector<std::string> verdicts(options.n_pes);
    RunPes(options.n_pes, [&](int pe) { verdicts[pe] = RunStorm(job, pe, plan); });
    CAPTURE(plan.seed);
    CAPTURE(options.n_pes);
    for (int pe = 0; pe < options.n_pes; ++pe) {
      CHECK(verdicts[pe] == "");
      CHECK(job.FreeBlocks(pe, options.arena_bytes) + job.FreeReserveBlocks(pe, 8192) == before[pe]);
    }
    ++jobs;
    operations += plan.rounds * plan.operations * options.n_pes;
  }
  MESSAGE(jobs << " jobs, " << operations << " operations");
}

}  // namespace
}  // namespace xla_shmem::testing
