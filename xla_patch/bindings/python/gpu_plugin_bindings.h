#ifndef XLA_SHMEM_BINDINGS_PYTHON_GPU_PLUGIN_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_GPU_PLUGIN_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds GpuPlugin, which registers the pass and the handlers with a GPU plugin.
void BindGpuPlugin(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_GPU_PLUGIN_BINDINGS_H_
