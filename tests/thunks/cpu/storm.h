// Random collectives, all in flight at once, which every PE starts in a different order.
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_STORM_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_STORM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/thunks/cpu/job.h"

namespace xla_shmem::testing {

// All PEs of a job run the same plan. Operations, sizes, groups and edges depend on the seed alone, orders and delays
// on the seed and the PE.
struct StormPlan {
  uint64_t seed = 1;
  int rounds = 10;
  int operations = 24;       // a round; the PE starts all of them before it waits for any
  int threads = 2;           // that start a PE's operations
  size_t largest = 1 << 19;  // bytes of one operand
};

// Runs the plan as `pe`. Returns "" if every operation succeeded and every byte is right, else the first error.
std::string RunStorm(Job& job, int pe, const StormPlan& plan);

// The reserve that lets every operation of a round make progress in the smallest geometry.
size_t ReserveFor(const StormPlan& plan, int n_pes);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_STORM_H_
