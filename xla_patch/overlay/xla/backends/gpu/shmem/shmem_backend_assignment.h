// The call that the patch adds to XLA's compiler.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_BACKEND_ASSIGNMENT_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_BACKEND_ASSIGNMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/service/compilation_stats.h"
#include "xla/service/gpu_topology.h"

namespace xla::gpu {

// Runs the ShmemBackendAssigner as a pipeline of its own if --xla_gpu_experimental_enable_nvshmem is set for `module`
// and NVSHMEM has not failed in this process. InvalidArgument if an option (ShmemOptions) is wrong. A module for this
// process's job is placed on the running job. A module for the GPUs of other machines is placed on `topology`, whose
// NVLink domains have `slice_size` devices (0: unknown).
absl::Status AssignShmemBackends(HloModule* module, const GpuTopology& topology, int64_t slice_size,
                                 CompilationStats* stats);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_BACKEND_ASSIGNMENT_H_
