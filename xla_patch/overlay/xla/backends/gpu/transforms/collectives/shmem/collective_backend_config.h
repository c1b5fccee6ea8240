#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_COLLECTIVE_BACKEND_CONFIG_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_COLLECTIVE_BACKEND_CONFIG_H_

#include "absl/status/statusor.h"
#include "xla/hlo/ir/hlo_instruction.h"
#include "xla_patch/assigner/assigner.h"

namespace xla::gpu {

// Writes the backend into the instruction's GpuBackendConfig and leaves the rest of it alone, but with NVSHMEM clears
// `kernel_strategy`, because XLA would emit a kernel of its own for it. True if anything changed.
//
// `collectives_mode` is left alone: with COLLECTIVES_SYMMETRIC_MEMORY XLA would place operands and results in
// collective memory, which transfers through staging slots have no use for (docs/patched-jaxlib.md, "No collective
// memory").
absl::StatusOr<bool> SetCollectiveBackend(xla_shmem::Backend backend, HloInstruction* instruction);

// Whether a collective has backend NVSHMEM there. False for other instructions.
bool IsOnNvshmem(const HloInstruction& instruction);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_COLLECTIVE_BACKEND_CONFIG_H_
