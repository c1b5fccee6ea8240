// What must hold in a run. Whatever does not, ends it (Scheduler::Fail).
#ifndef XLA_SHMEM_TESTS_SIMULATOR_JOB_CHECKS_H_
#define XLA_SHMEM_TESTS_SIMULATOR_JOB_CHECKS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/simulator/plan.h"
#include "tests/simulator/simulated_job.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/thunks/cpu/local_pes.h"

namespace xla_shmem::simulator {

class JobChecks {
 public:
  explicit JobChecks(const Plan& plan);

  // A process is late from now on.
  void AddLateness(int round, int process);
  // An operation of a round begins to wait for these PEs.
  void AddWait(int round, const std::set<int>& pes);
  void CheckError(int process, const std::string& error) const;
  // A line that a process prints about those that are late.
  void CheckLine(int process, const std::string& line);
  // Slots, grants and mailboxes of the process of the heap, after all operations.
  void CheckAllFree(const shm::Heap& heap, const LocalPes& pes) const;
  // After the run. `met`: when all processes had met; `ended`: when the last exited.
  void CheckEnd(int64_t met, int64_t ended, const Report& report) const;

 private:
  // A process that is late in a round, and what the others say of it.
  struct Lateness {
    Fault fault;
    int64_t from = 0;          // 0: it has not come to this round
    int64_t awaited_from = 0;  // since when an operation of this round waits for it; 0: none does
    std::vector<int> lines;    // by the process that prints them
  };
  void CheckErrorOfKilled(int process, const std::string& error) const;
  void CheckLines(const Lateness& lateness) const;

  const Plan& plan_;
  std::vector<Lateness> latenesses_;
  int lines_ = 0;
};

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_JOB_CHECKS_H_
