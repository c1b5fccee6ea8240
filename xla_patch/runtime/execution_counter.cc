#include "xla_patch/runtime/execution_counter.h"

namespace xla_shmem {

uint64_t ExecutionCounter::Next(uint64_t operation, int pe, uint64_t executable, int64_t run_id) {
  const uint64_t key = operation ^ (static_cast<uint64_t>(pe) * 0x9e3779b97f4a7c15ull);
  Shard& shard = shards_[(key >> 32) % kShards];
  std::lock_guard<std::mutex> lock(shard.mutex);
  Site& site = shard.sites[key];
  if (site.executable != executable) {
    site.executable = executable;
    site.first_run_id = run_id;
    site.first_number = site.next_number;
    site.runs.clear();
  }
  // Modulo 2^32, because the launch ids of some JAX releases are.
  const uint32_t number = site.first_number + static_cast<uint32_t>(run_id) - static_cast<uint32_t>(site.first_run_id);
  for (Run& run : site.runs) {
    if (run.number == number) return static_cast<uint64_t>(number) << 32 | run.executions++;
  }
  site.runs.push_front({number, 1});
  if (site.runs.size() > kRunsRemembered) site.runs.pop_back();
  // A run that another thread has launched earlier may come later, with its smaller number.
  if (static_cast<int32_t>(number - site.next_number) >= 0) site.next_number = number + 1;
  return static_cast<uint64_t>(number) << 32;
}

}  // namespace xla_shmem
