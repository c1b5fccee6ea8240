#ifndef XLA_SHMEM_BINDINGS_PYTHON_OPTIONS_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_OPTIONS_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds the table of options and the readers of their values.
void BindOptions(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_OPTIONS_BINDINGS_H_
