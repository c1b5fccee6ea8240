// Random collectives, all in flight at once, started in another order on every PE.
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_STORM_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_STORM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/thunks/cpu/job.h"

namespace xla_shmem::testing {

// All PEs of a job run the same plan: operations, sizes, groups and edges follow from the seed alone; orders and delays
// from the seed and the PE.
struct StormPlan {
  uint64_t seed = 1;
  int rounds = 10;
  int operations = 24;       // a round, all started before any is waited for
  int threads = 2;           // a PE starts its operations on
  size_t largest = 1 << 19;  // bytes of one operand
};

// Runs the plan as `pe`. "" if every operation succeeded and every byte is right, else the first thing that went wrong.
std::string RunStorm(Job& job, int pe, const StormPlan& plan);

// Reserve that lets every operation of a round make progress in the smallest geometry.
size_t ReserveFor(const StormPlan& plan, int n_pes);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_STORM_H_
