// XLA FFI handlers of the custom calls that the pass emits for XLA:CPU (xla_patch/hlo/rewrite/pass.h), one for each op.
//
// They never block: if an operation cannot finish within a short poll, the handler returns an ffi::Future that the
// progress engine completes.
#ifndef XLA_SHMEM_BINDINGS_FFI_CPU_COLLECTIVES_H_
#define XLA_SHMEM_BINDINGS_FFI_CPU_COLLECTIVES_H_

#include <vector>

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

// The type of the state that the instantiate stage creates and the execute stage reads. Register it before the
// handlers.
XLA_FFI_TypeId* LoadedCallTypeId();
XLA_FFI_TypeInfo* LoadedCallTypeInfo();

struct CpuHandler {
  const char* target;
  XLA_FFI_Error* (*instantiate)(XLA_FFI_CallFrame*);
  XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame*);
};

// Every target that the pass writes for a collective on CPU, for a part of a divided one, or around one of the default
// backend.
std::vector<CpuHandler> CpuHandlers();

// The handler of xla_shmem.after: it does nothing, with any operands, results and attributes. `xla-shmem bench` times
// it, because this is the cost of a custom call without a collective.
XLA_FFI_Error* EmptyCall(XLA_FFI_CallFrame* frame);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_CPU_COLLECTIVES_H_
