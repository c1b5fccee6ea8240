#ifndef XLA_SHMEM_BINDINGS_PYTHON_GPU_PLUGIN_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_GPU_PLUGIN_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds what registers the pass and the handlers with a GPU plugin: GpuPlugin, set_gpu_pass, reset_gpu_pass,
// set_gpu_pass_hooks.
void BindGpuPlugin(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_GPU_PLUGIN_BINDINGS_H_
