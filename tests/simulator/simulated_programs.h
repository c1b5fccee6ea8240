// The programs of a job: which operations each process runs, what it calls them, and what its flight record says of
// them.
#ifndef XLA_SHMEM_TESTS_SIMULATOR_SIMULATED_PROGRAMS_H_
#define XLA_SHMEM_TESTS_SIMULATOR_SIMULATED_PROGRAMS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/simulator/plan.h"
#include "tests/simulator/scheduler.h"
#include "tests/thunks/cpu/traffic.h"
#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/shm/operation.h"
#include "xla_patch/thunks/cpu/message_key.h"

namespace xla_shmem::simulator {

// Each round is a run of a program. If operations are crowded, each round has a program of its own.
class SimulatedPrograms {
 public:
  explicit SimulatedPrograms(const Plan& plan);
  // What `process` calls operation `i` of a round.
  uint64_t IdOf(int process, int round, int i) const;
  observe::Site SiteOf(int process, int round, int i) const;
  // The part of `pe` in a random operation, as testing::DrawTransfer draws it.
  std::unique_ptr<testing::Transfer> Draw(Random& random, MessageKey key, int pe) const;

 private:
  const Plan& plan_;
  const std::vector<uint64_t> operations_;  // ids in the first copy, round by round
};

// A collective of the default backend, of all PEs. It is over when all have come.
class ForeignCollective {
 public:
  explicit ForeignCollective(int n_pes) : n_pes_(n_pes) {}
  // The part of `pe`, which comes now. XLA's backend gives up at `until`.
  std::unique_ptr<Operation> Begin(int pe, int64_t until);
  bool all_came() const { return static_cast<int>(came_.size()) == n_pes_; }
  std::set<int> missing() const;

 private:
  const int n_pes_;
  std::set<int> came_;
};

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_SIMULATED_PROGRAMS_H_
