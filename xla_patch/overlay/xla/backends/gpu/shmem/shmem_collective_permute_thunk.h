#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_PERMUTE_THUNK_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_PERMUTE_THUNK_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "xla/backends/gpu/runtime/collective_permute_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/runtime/thunk.pb.h"
#include "xla/backends/gpu/shmem/shmem_thunk.h"
#include "xla/service/buffer_assignment.h"
#include "xla/stream_executor/stream.h"

namespace xla::gpu {

// A collective-permute by puts with signals: the receiver grants a slot, the sender puts into it, and the receiver
// copies the data out and returns the slot (docs/protocol.md of xla-shmem).
class ShmemCollectivePermuteThunk : public ShmemThunk<CollectivePermuteThunk> {
 public:
  // Replaces `thunk`.
  explicit ShmemCollectivePermuteThunk(const CollectivePermuteThunk& thunk);

  // Returns upstream's thunk, from the same proto, if NVSHMEM does not run here.
  static absl::StatusOr<std::unique_ptr<CollectivePermuteThunk>> FromProto(
      ThunkInfo thunk_info, const CollectivePermuteThunkProto& thunk_proto,
      absl::Span<const BufferAllocation> buffer_allocations);

  absl::StatusOr<ThunkProto> ToProto() const override;

 protected:
  absl::Status Enqueue(const ExecuteParams& params, se::Stream& stream, bool capturing) override;
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_PERMUTE_THUNK_H_
