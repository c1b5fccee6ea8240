// The calls that the patch adds to XLA's thunk emitter.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_EMISSION_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_EMISSION_H_

#include <memory>

#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/hlo/ir/hlo_instruction.h"

namespace xla::gpu {

// Returns the NVSHMEM thunk in place of upstream's `thunk` if `instruction` has that backend; otherwise `thunk`.
std::unique_ptr<Thunk> OnItsBackend(const HloInstruction& instruction, std::unique_ptr<Thunk> thunk);

// The same for all of a sequence, for Future::Map.
class OnItsBackends {
 public:
  explicit OnItsBackends(const HloInstruction* instruction) : instruction_(instruction) {}
  ThunkSequence operator()(ThunkSequence thunks) const;

 private:
  const HloInstruction* instruction_;
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_EMISSION_H_
