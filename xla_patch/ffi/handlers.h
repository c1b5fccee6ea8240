// XLA FFI handlers of the custom calls that the pass emits for XLA:CPU (xla_patch/hlo/pass.h).
//
// `xla_shmem.collective_permute` and `xla_shmem.all_reduce` never block: what cannot finish within a short poll becomes
// an ffi::Future that the progress engine completes. Their instantiate handlers refuse an executable that was compiled
// for another topology, or that is loaded where the runtime cannot run.
#ifndef XLA_SHMEM_FFI_HANDLERS_H_
#define XLA_SHMEM_FFI_HANDLERS_H_

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

// The type of what the instantiate handler leaves for the execute handlers; to be registered before the handlers.
XLA_FFI_TypeId* LoadedCallTypeId();
XLA_FFI_TypeInfo* LoadedCallTypeInfo();

XLA_FFI_Error* InstantiateHandler(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* CollectivePermuteHandler(XLA_FFI_CallFrame* frame);
XLA_FFI_Error* AllReduceHandler(XLA_FFI_CallFrame* frame);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_FFI_HANDLERS_H_
