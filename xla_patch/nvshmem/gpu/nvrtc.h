// Compiles the device code (kernels.cu) for this machine's GPU with NVIDIA's run-time compiler, opened by dlopen:
// nothing is linked and the package contains no compiled device code.
#ifndef XLA_SHMEM_NVSHMEM_GPU_NVRTC_H_
#define XLA_SHMEM_NVSHMEM_GPU_NVRTC_H_

#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/kernel_source.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// Returns a cubin, or PTX if the compiler is older than the GPU, so that the driver has to finish the translation.
// `architecture`: ten times the compute capability (90 for 9.0). `candidates`: paths or sonames of libnvrtc, tried in
// order. Error if none opens or the compiler refuses.
Result<std::string> CompileKernels(const std::vector<std::string>& candidates, const char* source, int architecture);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_NVRTC_H_
