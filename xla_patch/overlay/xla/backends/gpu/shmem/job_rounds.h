// Rounds in which the processes of a job agree, over PJRT's key-value store.
//
// In a round each process gives an answer, and process 0 a verdict on all answers, which holds for every process.
#ifndef XLA_BACKENDS_GPU_SHMEM_JOB_ROUNDS_H_
#define XLA_BACKENDS_GPU_SHMEM_JOB_ROUNDS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "xla/pjrt/distributed/key_value_store_interface.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {

class JobRounds {
 public:
  // Of process 0, on the answers by process. All of them are ok.
  using Check = std::function<xla_shmem::Status(const std::vector<std::string>& answers)>;

  JobRounds(int process, int num_processes, std::shared_ptr<KeyValueStoreInterface> kv_store)
      : process_(process), num_processes_(num_processes), kv_store_(std::move(kv_store)) {}

  int num_processes() const { return num_processes_; }

  // Ok if all processes answer ok and `check` accepts their answers; otherwise the reason, the same in all of them.
  xla_shmem::Status Agree(const std::string& round, const xla_shmem::Result<std::string>& own,
                          const Check& check) const;
  // The answer of a process. Waits for it.
  xla_shmem::Result<std::string> Answer(const std::string& round, int process) const;
  // Whether the answer of a process is ok; none if it has not answered yet.
  std::optional<xla_shmem::Status> Outcome(const std::string& round, int process) const;
  // What process 0 makes of `make`, which the other processes do not call.
  xla_shmem::Result<std::string> FromProcess0(const std::string& name,
                                              const std::function<xla_shmem::Result<std::string>()>& make) const;

 private:
  absl::StatusOr<std::string> Verdict(const std::string& round, const std::string& own, const Check& check) const;
  xla_shmem::Result<std::string> Judge(const std::string& round, const Check& check) const;

  const int process_;
  const int num_processes_;
  const std::shared_ptr<KeyValueStoreInterface> kv_store_;
};

// A check: all answers are the same text.
xla_shmem::Status CheckEqual(const std::vector<std::string>& answers);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_JOB_ROUNDS_H_
