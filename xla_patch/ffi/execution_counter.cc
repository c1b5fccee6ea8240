#include "xla_patch/ffi/execution_counter.h"

namespace xla_shmem {

uint64_t ExecutionCounter::Next(uint64_t operation, int pe, int64_t run_id) {
  const uint64_t key = operation ^ (static_cast<uint64_t>(pe) * 0x9e3779b97f4a7c15ull);
  const uint32_t id = static_cast<uint32_t>(run_id);  // JAX's launch ids are 32 bits
  Shard& shard = shards_[(key >> 32) % kShards];
  std::lock_guard<std::mutex> lock(shard.mutex);
  std::deque<Run>& runs = shard.runs[key];
  for (Run& run : runs) {
    if (run.id == id) return static_cast<uint64_t>(id) << 32 | run.executions++;
  }
  runs.push_front({id, 1});
  if (runs.size() > kRunsRemembered) runs.pop_back();
  return static_cast<uint64_t>(id) << 32;
}

}  // namespace xla_shmem
