#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_
#define XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_

namespace xla_shmem::gpu {

// The text of kernels.cu, for the run-time compiler (nvrtc.h). Defined in a file that CMake or Bazel writes from
// kernel_source.cc.in.
extern const char kKernelSource[];

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_
