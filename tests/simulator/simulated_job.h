// A job of the real runtime (xla_patch/shm, xla_patch/thunks/cpu) in simulated processes.
#ifndef XLA_SHMEM_TESTS_SIMULATOR_SIMULATED_JOB_H_
#define XLA_SHMEM_TESTS_SIMULATOR_SIMULATED_JOB_H_

#include <cstdint>

#include "tests/simulator/plan.h"

namespace xla_shmem::simulator {

struct Report {
  uint64_t steps = 0;
  uint64_t trace = 0;
  int finished = 0;  // operations that gave results
  int failed = 0;    // operations that gave an error
};

// Runs the plan. What must hold ends the run otherwise (Scheduler::Fail): results are right; without a fault nothing
// fails, and all slots, records and mailboxes are free at the end; with one, all operations end in time, and errors
// name the faulty process.
Report RunPlan(const Plan& plan);

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_SIMULATED_JOB_H_
