#ifndef XLA_BACKENDS_GPU_SHMEM_PJRT_JOB_STORE_H_
#define XLA_BACKENDS_GPU_SHMEM_PJRT_JOB_STORE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "xla/pjrt/distributed/key_value_store_interface.h"
#include "xla_patch/runtime/job_rounds.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {

// PJRT's key-value store, in which a key is written once.
class PjrtJobStore : public xla_shmem::JobStore {
 public:
  explicit PjrtJobStore(std::shared_ptr<KeyValueStoreInterface> store) : store_(std::move(store)) {}

  xla_shmem::Status Set(const std::string& key, const std::string& value) override {
    return ToShmemStatus(store_->Set(key, value));
  }
  xla_shmem::Result<std::optional<std::string>> Wait(const std::string& key, std::chrono::milliseconds time) override {
    absl::StatusOr<std::string> text = store_->Get(key, absl::FromChrono(time));
    if (text.ok()) return std::optional<std::string>(*std::move(text));
    if (absl::IsDeadlineExceeded(text.status()) || absl::IsNotFound(text.status())) return std::optional<std::string>();
    return ToShmemStatus(text.status());
  }
  std::optional<std::string> Get(const std::string& key) override {
    absl::StatusOr<std::string> text = store_->TryGet(key);
    return text.ok() ? std::optional<std::string>(*std::move(text)) : std::nullopt;
  }
  xla_shmem::Result<std::string> Propose(const std::string& key, const std::string& value) override {
    const absl::Status set = store_->Set(key, value);
    if (!set.ok() && !absl::IsAlreadyExists(set)) return ToShmemStatus(set);
    absl::StatusOr<std::string> text = store_->Get(key, absl::Minutes(1));
    if (text.ok()) return *std::move(text);
    return ToShmemStatus(text.status());
  }

 private:
  static xla_shmem::Status ToShmemStatus(const absl::Status& status) {
    return status.ok() ? xla_shmem::Status() : xla_shmem::Status::Error(std::string(status.message()));
  }

  const std::shared_ptr<KeyValueStoreInterface> store_;
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_PJRT_JOB_STORE_H_
