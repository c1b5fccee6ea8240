#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_COLLECTIVE_BACKEND_CONFIG_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_COLLECTIVE_BACKEND_CONFIG_H_

#include "absl/status/statusor.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla_patch/assigner/assigner.h"

namespace xla::gpu {

// Writes the backend into the instruction's GpuBackendConfig and leaves the rest of it alone; true if that changed it.
//
// XLA releases differ in what CollectiveBackendConfig holds, so this goes by the names of fields and values, and this
// is the only place that knows them:
//
//   backend           NVSHMEM or DEFAULT. From XLA of 2026-06 on the enum has no NVSHMEM; there it stays as it is, and
//   the
//                     instruction's frontend attributes are what the emitter goes by.
//   collectives_mode  COLLECTIVES_SYMMETRIC_MEMORY with NVSHMEM, where XLA has the mode, so that operands and results
//   get
//                     collective memory. Taken back with the backend, and only then: otherwise it is not ours.
absl::StatusOr<bool> SetCollectiveBackend(xla_shmem::Backend backend, HloInstruction* instruction);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_COLLECTIVE_BACKEND_CONFIG_H_
