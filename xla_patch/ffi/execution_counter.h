// Counts the executions of each operation within each run, to tell the iterations of a loop apart.
#ifndef XLA_SHMEM_FFI_EXECUTION_COUNTER_H_
#define XLA_SHMEM_FFI_EXECUTION_COUNTER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace xla_shmem {

class ExecutionCounter {
 public:
  // Run id in the high half, number of this execution of `operation` on `pe` within the run in the low half: equal in all
  // processes, because XLA's launch ids are, and because one run executes one instruction in one order. Thread-safe.
  uint64_t Next(uint64_t operation, int pe, int64_t run_id);

 private:
  // XLA:CPU keeps at most 32 executions of a device in flight; older runs are over and can be forgotten.
  static constexpr size_t kRunsRemembered = 64;
  static constexpr size_t kShards = 16;

  struct Run {
    uint32_t id;
    uint32_t executions;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::deque<Run>> runs;  // newest first
  };
  std::array<Shard, kShards> shards_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_FFI_EXECUTION_COUNTER_H_
