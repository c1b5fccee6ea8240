// XLA FFI handlers of the custom calls that the pass emits for XLA:CPU (xla_patch/hlo/rewrite/pass.h), one for each op.
//
// They never block: what cannot finish within a short poll becomes an ffi::Future that the progress engine completes.
#ifndef XLA_SHMEM_BINDINGS_FFI_HANDLERS_H_
#define XLA_SHMEM_BINDINGS_FFI_HANDLERS_H_

#include <vector>

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

// The type of what the instantiate handler leaves for the execute handlers; to be registered before the handlers.
XLA_FFI_TypeId* LoadedCallTypeId();
XLA_FFI_TypeInfo* LoadedCallTypeInfo();

struct CpuHandler {
  const char* target;
  XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame*);
  XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame*);
};

// Every target that the pass writes for CPU.
std::vector<CpuHandler> CpuHandlers();

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_HANDLERS_H_
