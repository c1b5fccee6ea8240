// FFI handlers of XLA:GPU: start and done of an overlapping pair, and whole operations, which may be captured into
// command buffers. The call with which a program begins (hlo/rewrite/meeting_call.h).
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_

#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

// Two forms of one handler. XLA reads from a handler itself whether CUDA graphs may capture its calls.
struct GpuExecute {
  XLA_FFI_Error* (*in_graphs)(XLA_FFI_CallFrame*);
  XLA_FFI_Error* (*outside_graphs)(XLA_FFI_CallFrame*);
};

struct GpuHandler {
  const char* target;
  GpuExecute execute;
};

// Every target that the pass writes for GPU. All share one instantiate stage.
const std::vector<GpuHandler>& GpuHandlers();
XLA_FFI_Error* GpuInstantiateHandler(XLA_FFI_CallFrame* frame);

// Adds the handlers of an op to GpuHandlers(): its start, the done that all ops share, and the whole operation, which
// XLA may capture. Objects at namespace scope do that.
class GpuHandlerRegistration {
 public:
  GpuHandlerRegistration(CollectiveOp op, XLA_FFI_Error* (*start)(XLA_FFI_CallFrame*), GpuExecute whole) noexcept;
};

// Adds the handler of another target in the same way.
class GpuCallRegistration {
 public:
  GpuCallRegistration(const char* target, GpuExecute call) noexcept;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_
