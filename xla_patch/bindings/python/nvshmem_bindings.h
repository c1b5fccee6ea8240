#ifndef XLA_SHMEM_BINDINGS_PYTHON_NVSHMEM_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_NVSHMEM_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds nvshmem_library, which opens NVSHMEM's host library and returns its path and version. It does not initialise
// NVSHMEM, so it works without a GPU.
void BindNvshmem(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_NVSHMEM_BINDINGS_H_
