// An FFI handler that does nothing: what XLA asks for a call before a collective has done anything. `xla-shmem bench`
// times it.
#ifndef XLA_SHMEM_BINDINGS_FFI_EMPTY_CALL_H_
#define XLA_SHMEM_BINDINGS_FFI_EMPTY_CALL_H_

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

// Takes any operands, results and attributes, as the handlers of the collectives do, and leaves all of them alone.
XLA_FFI_Error* EmptyCall(XLA_FFI_CallFrame* frame);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_EMPTY_CALL_H_
