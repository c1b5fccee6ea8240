#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_
#define XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_

namespace xla_shmem::gpu {

// The text of kernels/kernels.cu behind the files that it includes, for the run-time compiler (nvrtc.h), which has no
// files to include. Defined in a file that CMake or Bazel writes from kernel_source.cc.in.
extern const char kKernelSource[];

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_
