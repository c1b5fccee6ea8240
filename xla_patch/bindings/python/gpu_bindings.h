#ifndef XLA_SHMEM_BINDINGS_PYTHON_GPU_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_GPU_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds the GPU runtime: gpu_open, gpu_compile, kernel_source, gpu_load_kernels, gpu_unique_id, gpu_start, gpu_admit,
// gpu_arena_bytes, gpu_use_multimem, cuda_handlers.
void BindGpuRuntime(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_GPU_BINDINGS_H_
