#ifndef XLA_SHMEM_BINDINGS_PYTHON_INSPECT_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_INSPECT_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds the functions that read modules and do not change them: inspect_module, explain_module, schedule. Bad input
// raises ValueError with the message of the C++ side.
void BindInspection(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_INSPECT_BINDINGS_H_
