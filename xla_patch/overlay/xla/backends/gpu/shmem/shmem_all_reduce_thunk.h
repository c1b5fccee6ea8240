#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_ALL_REDUCE_THUNK_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_ALL_REDUCE_THUNK_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/runtime/all_reduce_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/runtime/thunk.pb.h"
#include "xla/backends/gpu/shmem/shmem_thunk.h"
#include "xla/stream_executor/stream.h"

namespace xla::gpu {

// An all-reduce by puts with signals, one-shot or two-shot by size. It reduces in the order of the group, so all
// members get the same bits.
class ShmemAllReduceThunk : public ShmemThunk<AllReduceReduceScatterThunkBase> {
 public:
  // Replaces `thunk`.
  explicit ShmemAllReduceThunk(const AllReduceThunk& thunk);

  // Whether the transfers support its types and its reduction.
  static bool Carries(const AllReduceThunk& thunk);

  // As upstream's thunk.
  absl::StatusOr<ThunkProto> ToProto() const override;

 protected:
  absl::Status Enqueue(const ExecuteParams& params, se::Stream& stream, bool capturing) override;
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_ALL_REDUCE_THUNK_H_
