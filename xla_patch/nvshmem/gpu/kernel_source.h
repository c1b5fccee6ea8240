#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_
#define XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_

namespace xla_shmem::gpu {

// Text of kernels.cu, for the run-time compiler.
extern const char kKernelSource[];

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNEL_SOURCE_H_
