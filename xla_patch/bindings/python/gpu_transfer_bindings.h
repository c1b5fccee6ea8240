#ifndef XLA_SHMEM_BINDINGS_PYTHON_GPU_TRANSFER_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_GPU_TRANSFER_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds the transfers of the GPU runtime without XLA, for benchmarks/gpu: gpu_permute, gpu_all_reduce, gpu_done,
// gpu_put_signal, gpu_wait, gpu_symmetric. They take addresses and streams as integers and need a started runtime.
void BindGpuTransfers(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_GPU_TRANSFER_BINDINGS_H_
