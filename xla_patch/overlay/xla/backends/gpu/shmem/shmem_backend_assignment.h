// The call that the patch adds to XLA's compiler.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_BACKEND_ASSIGNMENT_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_BACKEND_ASSIGNMENT_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/hlo/pass/hlo_pass_interface.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/gpu_topology.h"

namespace xla::gpu {

// Runs the ShmemBackendAssigner as a pipeline of its own if --xla_gpu_experimental_enable_nvshmem is set for `module`
// and NVSHMEM has not failed in this process. InvalidArgument if an option (ShmemOptions) is wrong. A module for this
// process's job is placed on the running job. A module for the GPUs of other machines is placed on `topology`, whose
// NVLink domains have `slice_size` devices (0: unknown).
absl::Status AssignShmemBackends(HloModule* module, const GpuTopology& topology, int64_t slice_size,
                                 CompilationStats* stats);

// The same as a pass. XLA of 2026-08 and later makes kernels of some collectives (CollectiveFusion) as soon as they are
// combined; there it runs in between, too.
class ShmemBackendAssignment : public HloModulePass {
 public:
  ShmemBackendAssignment(const GpuTopology& topology, int64_t slice_size)
      : topology_(topology), slice_size_(slice_size) {}

  absl::string_view name() const override { return "shmem-backend-assignment"; }

 protected:
  absl::StatusOr<bool> RunImpl(HloModule* module, const absl::flat_hash_set<absl::string_view>& threads) override;

 private:
  const GpuTopology& topology_;
  const int64_t slice_size_;
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_BACKEND_ASSIGNMENT_H_
