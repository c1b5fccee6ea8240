// An operation whose time spent copying is counted.
#ifndef XLA_SHMEM_RUNTIME_MEASURED_OPERATION_H_
#define XLA_SHMEM_RUNTIME_MEASURED_OPERATION_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/shm/operation.h"

namespace xla_shmem {

// Adds to `copied_ns` what the operation spends copying. In all else it behaves like that operation.
class MeasuredOperation : public Operation {
 public:
  MeasuredOperation(std::unique_ptr<Operation> operation, std::shared_ptr<uint64_t> copied_ns)
      : operation_(std::move(operation)), copied_ns_(std::move(copied_ns)) {}

  bool Poll() override {
    const uint64_t before = shm::CopiedNanoseconds();
    const bool finished = operation_->Poll();
    *copied_ns_ += shm::CopiedNanoseconds() - before;
    return finished;
  }
  bool made_progress() const override { return operation_->made_progress(); }
  void OnSubmit() override { operation_->OnSubmit(); }
  std::string Describe(const std::set<int>& pes) const override { return operation_->Describe(pes); }
  std::set<int> WaitsFor() const override { return operation_->WaitsFor(); }
  bool is_of_default_backend() const override { return operation_->is_of_default_backend(); }
  void Abandon() override { operation_->Abandon(); }

 private:
  const std::unique_ptr<Operation> operation_;
  const std::shared_ptr<uint64_t> copied_ns_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_MEASURED_OPERATION_H_
