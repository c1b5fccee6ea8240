// The call that the patch adds where XLA makes an executable: after a compilation, and when it loads one.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_SUBSTITUTION_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_SUBSTITUTION_H_

#include "absl/status/status.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/hlo/ir/hlo_module.h"

namespace xla::gpu {

// Replaces upstream's thunk of each collective that has backend NVSHMEM in `module`, also below other thunks. A thunk
// is found by the name of its instruction. Serialised thunks are upstream's, so call it again once they are loaded.
//
// Changes nothing without a module, and in a process whose NVSHMEM has failed.
absl::Status UseShmemThunks(const HloModule* module, ThunkSequence* thunks);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_SUBSTITUTION_H_
