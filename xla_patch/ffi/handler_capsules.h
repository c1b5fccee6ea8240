// FFI handlers as Python hands them to XLA.
#ifndef XLA_SHMEM_FFI_HANDLER_CAPSULES_H_
#define XLA_SHMEM_FFI_HANDLER_CAPSULES_H_

#include <nanobind/nanobind.h>

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

// A dict of stage capsules as jax.ffi.register_ffi_target takes it, with the name XLA expects on them.
inline nanobind::dict HandlerStages(XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame*),
                                    XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame*)) {
  constexpr char kCapsuleName[] = "xla._CUSTOM_CALL_TARGET";
  nanobind::dict stages;
  stages["instantiate"] = nanobind::capsule(reinterpret_cast<void*>(instantiate), kCapsuleName);
  stages["execute"] = nanobind::capsule(reinterpret_cast<void*>(execute), kCapsuleName);
  return stages;
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_FFI_HANDLER_CAPSULES_H_
