#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_MOSAIC_NVSHMEM_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_MOSAIC_NVSHMEM_H_

#include "absl/status/status.h"
#include "xla/hlo/ir/hlo_module.h"

namespace xla::gpu {

// Unimplemented if a Mosaic kernel of the module calls NVSHMEM. Its buffers would have to come from the NVSHMEM that
// upstream starts (XLA 5a9e73c), and a process can start NVSHMEM once.
absl::Status RefuseMosaicWithNvshmem(const HloModule& module);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_MOSAIC_NVSHMEM_H_
