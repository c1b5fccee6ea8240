#include "xla_patch/runtime/execution_counter.h"

#include <algorithm>
#include <string>

#include "xla_patch/types/invariant.h"

namespace xla_shmem {

Result<ExecutionCounter::Execution> ExecutionCounter::Begin(uint64_t operation, int pe, uint64_t executable,
                                                            int64_t run_id) {
  const uint64_t key = KeyOf(operation, pe);
  Shard& shard = ShardOf(key);
  std::lock_guard<std::mutex> lock(shard.mutex);
  Site& site = shard.sites[key];
  const uint32_t number = RunNumber(site, executable, run_id);
  if (site.running != 0 && site.running_number != number) {
    return Status::Error(
        "two runs of its program are under way at once on PE " + std::to_string(pe) +
        ", so two threads run it. They may start their runs in another order on another rank, where each would get the "
        "other's data. Run the program from one thread, wait for its results before another thread runs it, or give "
        "each thread a function of its own name");
  }
  ++site.running;
  site.running_number = number;
  return Execution{CountIn(site, number), Running(this, key)};
}

uint64_t ExecutionCounter::Number(uint64_t operation, int pe, uint64_t executable, int64_t run_id) {
  const uint64_t key = KeyOf(operation, pe);
  Shard& shard = ShardOf(key);
  std::lock_guard<std::mutex> lock(shard.mutex);
  Site& site = shard.sites[key];
  return CountIn(site, RunNumber(site, executable, run_id));
}

uint32_t ExecutionCounter::RunNumber(Site& site, uint64_t executable, int64_t run_id) {
  if (site.executable != executable) {
    site.executable = executable;
    site.first_run_id = run_id;
    site.first_number = site.next_number;
    site.runs.clear();
  }
  // Modulo 2^32, because the launch ids of some JAX releases are.
  return site.first_number + static_cast<uint32_t>(run_id) - static_cast<uint32_t>(site.first_run_id);
}

uint64_t ExecutionCounter::CountIn(Site& site, uint32_t number) {
  uint32_t executions = 0;
  const auto run =
      std::find_if(site.runs.rbegin(), site.runs.rend(), [number](const Run& of) { return of.number == number; });
  if (run != site.runs.rend()) {
    executions = run->executions++;
  } else {
    if (site.runs.size() == kRunsRemembered) site.runs.erase(site.runs.begin());
    site.runs.push_back({number, 1});
    // A run that another thread has launched earlier may come later, with its smaller number.
    if (static_cast<int32_t>(number - site.next_number) >= 0) site.next_number = number + 1;
  }
  return static_cast<uint64_t>(number) << 32 | executions;
}

void ExecutionCounter::Running::End() {
  ExecutionCounter* counter = std::exchange(counter_, nullptr);
  if (counter == nullptr) return;
  Shard& shard = counter->ShardOf(key_);
  std::lock_guard<std::mutex> lock(shard.mutex);
  // An executable can be unloaded while a failed run of it ends.
  if (const auto site = shard.sites.find(key_); site != shard.sites.end()) {
    XLA_SHMEM_INVARIANT(site->second.running, >, 0U);
    --site->second.running;
  }
}

}  // namespace xla_shmem
