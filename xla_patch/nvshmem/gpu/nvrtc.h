// Compiles the device code (kernels.cu) for the GPU at hand, with NVIDIA's run-time compiler opened by dlopen: nothing
// is linked and no compiled device code is shipped.
#ifndef XLA_SHMEM_NVSHMEM_GPU_NVRTC_H_
#define XLA_SHMEM_NVSHMEM_GPU_NVRTC_H_

#include <string>
#include <vector>

namespace xla_shmem::gpu {

// `architecture`: ten times the compute capability (90 for 9.0). `image` becomes a cubin, or PTX where the compiler is
// older than the GPU and the driver has to finish the translation. `candidates`: paths or sonames of libnvrtc, tried in
// order. False, with a sentence, if none opens or the compiler refuses.
bool CompileKernels(const std::vector<std::string>& candidates, const char* source, int architecture,
                    std::string* image, std::string* error);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_NVRTC_H_
