// Numbers the executions of each operation, so that all processes give one execution the same number.
//
// XLA's run ids distinguish the runs of one process, but they differ between processes: they count up from a hash of
// the executable, which depends on whether it was compiled or came from the compilation cache, and they start again
// when an executable is made again (jax.clear_caches() on one rank). The order in which the processes launch the runs
// of one program is equal. So the counter numbers the runs of an executable by the difference of their run ids, which
// also distinguishes runs that several threads have in flight. A new executable continues the numbers of the one before
// it.
//
// Two threads that run one program may launch their runs in another order on another rank, and would take each other's
// data. XLA:CPU gives each thread's runs on a device one after the other if the process has one device. So two runs of
// an operation that are under way at once are those of two threads, and the second is refused. With several devices XLA
// runs one program at a time, so the thread that launched a run cannot be told from the run, and nothing is refused.
#ifndef XLA_SHMEM_RUNTIME_EXECUTION_COUNTER_H_
#define XLA_SHMEM_RUNTIME_EXECUTION_COUNTER_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem {

class ExecutionCounter {
 public:
  // An execution of an operation on a PE, from its start to its end.
  class Running {
   public:
    Running() = default;
    Running(Running&& other) noexcept : counter_(std::exchange(other.counter_, nullptr)) { key_ = other.key_; }
    Running& operator=(Running&& other) = delete;
    ~Running() { End(); }

    // Must come before anything that lets XLA go on with the run. Once; later calls do nothing.
    void End();

   private:
    friend class ExecutionCounter;
    Running(ExecutionCounter* counter, uint64_t key) : counter_(counter), key_(key) {}

    ExecutionCounter* counter_ = nullptr;
    uint64_t key_ = 0;
  };

  struct Execution {
    uint64_t number;  // of the run in the high half, of this execution within the run in the low half
    Running running;
  };

  // `executable` is equal for all runs of one loaded executable and different for any other. Returns an error if
  // another run of the operation has not ended on this PE. Thread-safe.
  Result<Execution> Begin(uint64_t operation, int pe, uint64_t executable, int64_t run_id);
  // The number alone, of an operation whose executions XLA keeps apart by itself.
  uint64_t Number(uint64_t operation, int pe, uint64_t executable, int64_t run_id);

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
    uint32_t running = 0;         // executions that have not ended, all of one run
    uint32_t running_number = 0;  // of that run
    std::vector<Run> runs;        // newest last; a deque would take 1 KiB for each operation
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, Site> sites;
  };
  static uint64_t KeyOf(uint64_t operation, int pe) {
    return operation ^ (static_cast<uint64_t>(pe) * 0x9e3779b97f4a7c15ull);
  }
  Shard& ShardOf(uint64_t key) { return shards_[(key >> 32) % kShards]; }
  // Both with the shard's mutex held.
  static uint32_t RunNumber(Site& site, uint64_t executable, int64_t run_id);
  static uint64_t CountIn(Site& site, uint32_t run);

  std::array<Shard, kShards> shards_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_EXECUTION_COUNTER_H_
