#ifndef XLA_SHMEM_BINDINGS_PYTHON_PASS_HOOK_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_PASS_HOOK_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds PassHook, and cpu_pass and gpu_pass, which return its two instances. Call it after BindPass.
void BindPassHook(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_PASS_HOOK_BINDINGS_H_
