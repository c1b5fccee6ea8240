// Numbers the executions of each operation, so that all processes give one execution the same number.
//
// XLA's run ids distinguish the runs of one process, but they differ between processes: they count up from a hash of
// the executable, which depends on whether it was compiled or came from the compilation cache, and they start again
// when an executable is made again (jax.clear_caches() on one rank). The order in which the processes launch the runs
// of one program is equal. So the counter numbers the runs of an executable by the difference of their run ids, which
// also distinguishes runs that several threads have in flight. A new executable continues the numbers of the one before
// it.
#ifndef XLA_SHMEM_RUNTIME_EXECUTION_COUNTER_H_
#define XLA_SHMEM_RUNTIME_EXECUTION_COUNTER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace xla_shmem {

class ExecutionCounter {
 public:
  // Run number in the high half, number of this execution of `operation` on `pe` within the run in the low half.
  // `executable` is equal for all runs of one loaded executable and different for any other. Thread-safe.
  uint64_t Next(uint64_t operation, int pe, uint64_t executable, int64_t run_id);

 private:
  // XLA:CPU keeps at most 32 executions of a device in flight, so older runs have finished.
  static constexpr size_t kRunsRemembered = 64;
  static constexpr size_t kShards = 16;

  struct Run {
    uint32_t number;
    uint32_t executions;
  };
  // One operation on one PE.
  struct Site {
    uint64_t executable = 0;  // the executable whose runs are numbered; 0 is no executable
    int64_t first_run_id = 0;
    uint32_t first_number = 0;
    uint32_t next_number = 0;
    std::deque<Run> runs;  // newest first
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, Site> sites;
  };
  std::array<Shard, kShards> shards_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_EXECUTION_COUNTER_H_
