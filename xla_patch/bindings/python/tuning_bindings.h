#ifndef XLA_SHMEM_BINDINGS_PYTHON_TUNING_BINDINGS_H_
#define XLA_SHMEM_BINDINGS_PYTHON_TUNING_BINDINGS_H_

#include <nanobind/nanobind.h>

namespace xla_shmem {

// Adds TuningTable. Call it before the functions that take one as an argument are added.
void BindTuning(nanobind::module_& m);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_TUNING_BINDINGS_H_
