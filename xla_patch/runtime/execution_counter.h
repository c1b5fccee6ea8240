// Numbers the executions of each operation, so that all processes give one execution the same number.
//
// XLA's run ids tell the runs of this process apart, but they are not equal in all processes: they count up from a hash
// of the executable, which differs between one that was compiled and one that came from the compilation cache, and they
// start anew when an executable is made again (jax.clear_caches() on one rank). What is equal everywhere is the order
// in which the runs of one program are launched. So the runs of an executable are numbered by the distance of their run
// ids, which also keeps runs apart that several threads have in flight, and every new executable goes on where the one
// before it stopped.
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
  // XLA:CPU keeps at most 32 executions of a device in flight; older runs are over and can be forgotten.
  static constexpr size_t kRunsRemembered = 64;
  static constexpr size_t kShards = 16;

  struct Run {
    uint32_t number;
    uint32_t executions;
  };
  // One operation on one PE.
  struct Site {
    uint64_t executable = 0;  // whose runs are being numbered; no executable is 0
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
