// Rounds in which the processes of a job agree before NVSHMEM starts, over texts that they share. The plugin and a
// patched XLA agree by the same rounds (python/xla_shmem/runtime/gpu_job.py, xla/backends/gpu/shmem/shmem_runtime.h).
#ifndef XLA_SHMEM_RUNTIME_JOB_ROUNDS_H_
#define XLA_SHMEM_RUNTIME_JOB_ROUNDS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem {

// Texts by key, which all processes of a job share. An error if the store fails.
class JobStore {
 public:
  virtual ~JobStore() = default;
  virtual Status Set(const std::string& key, const std::string& value) = 0;
  // Waits for a text; none if no process has stored it in time.
  virtual Result<std::optional<std::string>> Wait(const std::string& key, std::chrono::milliseconds time) = 0;
  // None if there is none yet.
  virtual std::optional<std::string> Get(const std::string& key) = 0;
  // Stores a text if there is none yet; returns the one that is there, the same in all processes.
  virtual Result<std::string> Propose(const std::string& key, const std::string& value) = 0;
};

// What a process says in a round.
struct JobAnswer {
  std::string facts;      // one line
  std::string agreement;  // must be equal in all processes
};

class JobRounds {
 public:
  // By process 0, on the facts of all processes. All of them have answered, with equal agreements.
  using Check = std::function<Status(const std::vector<std::string>& facts)>;

  // `prefix`: of the keys. `patience`: with a process that has not answered.
  JobRounds(int process, int num_processes, std::shared_ptr<JobStore> store, std::string prefix,
            std::chrono::milliseconds patience)
      : process_(process),
        num_processes_(num_processes),
        store_(std::move(store)),
        prefix_(std::move(prefix)),
        patience_(patience) {}

  // The facts of all processes if each has answered, with equal agreements, and `check` accepts them; otherwise the
  // reason, the same in all processes. The verdict is that of process 0. A process that has waited for it in vain gives
  // one instead, which then holds for process 0 too.
  Result<std::vector<std::string>> Agree(const std::string& round, const Result<JobAnswer>& own,
                                         const Check& check = {}) const;
  // Whether the answer of a process is ok; none if it has not answered yet.
  std::optional<Status> Outcome(const std::string& round, int process) const;
  // What process 0 makes of `make`, which the other processes do not call.
  Result<std::string> FromProcess0(const std::string& name, const std::function<Result<std::string>()>& make) const;

 private:
  std::string KeyOf(const std::string& round, int process) const;
  Result<std::string> Verdict(const std::string& round, const Check& check) const;
  Result<std::vector<std::string>> Judge(const std::string& round, const Check& check) const;
  // Waits until `deadline` for a text that exists already.
  Result<JobAnswer> Answer(const std::string& round, int process, std::chrono::steady_clock::time_point deadline) const;
  std::string Absent(int process, std::chrono::milliseconds time) const;

  const int process_;
  const int num_processes_;
  const std::shared_ptr<JobStore> store_;
  const std::string prefix_;
  const std::chrono::milliseconds patience_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_JOB_ROUNDS_H_
