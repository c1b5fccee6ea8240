#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_PERMUTE_THUNK_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_PERMUTE_THUNK_H_

#include "absl/status/status.h"
#include "xla/backends/gpu/runtime/collective_permute_thunk.h"
#include "xla/backends/gpu/shmem/shmem_thunk.h"
#include "xla/stream_executor/stream.h"

namespace xla::gpu {

// A collective-permute by puts with signals: the receiver grants a slot, the sender puts into it, and the receiver
// copies the data out and returns the slot (docs/protocol.md of xla-shmem).
class ShmemCollectivePermuteThunk : public ShmemThunk<CollectivePermuteThunk> {
 public:
  // Replaces `thunk`.
  explicit ShmemCollectivePermuteThunk(const CollectivePermuteThunk& thunk);

 protected:
  absl::Status Enqueue(const ExecuteParams& params, se::Stream& stream, bool capturing) override;
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_PERMUTE_THUNK_H_
