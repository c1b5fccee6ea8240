// FFI handlers of XLA:GPU: start and done of an overlapping pair, and whole operations, which may be captured into
// command buffers.
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_

#include <vector>

#include "xla/ffi/api/c_api.h"

namespace xla_shmem {

struct GpuHandler {
  const char* target;
  XLA_FFI_Error* (*execute)(XLA_FFI_CallFrame*);
};

// Every target that the pass writes for GPU. All share one instantiate stage.
std::vector<GpuHandler> GpuHandlers();
XLA_FFI_Error* GpuInstantiateHandler(XLA_FFI_CallFrame* frame);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_
