// FFI handlers as Python passes them to XLA.
#ifndef XLA_SHMEM_BINDINGS_PYTHON_HANDLER_CAPSULES_H_
#define XLA_SHMEM_BINDINGS_PYTHON_HANDLER_CAPSULES_H_

#include <nanobind/nanobind.h>

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

// A handler as a capsule with the name that XLA expects.
nanobind::capsule HandlerCapsule(XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*));

// A dict of stage capsules as jax.ffi.register_ffi_target takes it.
nanobind::dict HandlerStages(XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame*),
                             XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame*));

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_PYTHON_HANDLER_CAPSULES_H_
