// FFI handlers of XLA:GPU: start and done of an overlapping pair, and whole operations, which may be captured into
// command buffers. The call with which a program begins (hlo/rewrite/several_gpus.h).
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_

#include <string>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem {

using FfiHandler = XLA_FFI_Error* (*)(XLA_FFI_CallFrame*);

struct GpuHandler {
  std::string target;
  FfiHandler execute;
};

// Two forms of the handler of one target. XLA reads from a handler itself whether CUDA graphs may capture its calls.
struct WholeHandlers {
  FfiHandler in_graphs;
  FfiHandler in_loop;  // outside of graphs; its target ends with kInLoopSuffix
};

// Every target that the pass writes for GPU. All share one instantiate stage.
const std::vector<GpuHandler>& GpuHandlers();
XLA_FFI_Error* GpuInstantiateHandler(XLA_FFI_CallFrame* frame);

// Adds the handlers of an op to GpuHandlers(): its start, the done that all ops share, and the whole operation. Objects
// at namespace scope do that.
class GpuHandlerRegistration {
 public:
  GpuHandlerRegistration(CollectiveOp op, FfiHandler start, WholeHandlers whole) noexcept;
};

// Adds the handler of another target in the same way.
class GpuCallRegistration {
 public:
  GpuCallRegistration(const char* target, FfiHandler call) noexcept;
  GpuCallRegistration(const char* target, WholeHandlers whole) noexcept;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_HANDLERS_H_
