// An FFI handler that does nothing: that of xla_shmem.after on XLA:CPU. `xla-shmem bench` times it, because this is the
// cost of a custom call without a collective.
#ifndef XLA_SHMEM_BINDINGS_FFI_EMPTY_CALL_H_
#define XLA_SHMEM_BINDINGS_FFI_EMPTY_CALL_H_

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

// Takes any operands, results and attributes, as the handlers of the collectives do, and ignores them.
XLA_FFI_Error* EmptyCall(XLA_FFI_CallFrame* frame);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_EMPTY_CALL_H_
