// What the attributes of a call say to one GPU, decoded at its first execution there.
#ifndef XLA_SHMEM_BINDINGS_FFI_GPU_DECODED_CALL_H_
#define XLA_SHMEM_BINDINGS_FFI_GPU_DECODED_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_patch/bindings/ffi/call_arguments.h"
#include "xla_patch/thunks/gpu/gpu_runtime.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

struct DecodedCall {
  CallIdentity identity;
  GpuRuntime* gpu;
  uint32_t tag;
  // The group of this GPU in PEs of its world: empty for a permute, and in a broadcast without this PE.
  std::vector<int> group;
  // The PEs that a permute connects with it, in PEs of its world.
  Neighbours neighbours;
  // The PEs of this process whose threads meet at the call (thunks/gpu/local_meetings.h), this one among them: all, if
  // all run it; else those that may wait for one another in it, none if this one does not take part.
  std::vector<int> meeting;
};

// The call with these attributes on a CUDA device (`op`: as of ReadPeers), an error if it cannot run there. XLA:GPU
// instantiates no handler for an executable that it has deserialised, so there is no state of XLA's that every
// execution has: what was decoded is found by the call's operation, and compared with the attributes.
Result<std::shared_ptr<const DecodedCall>> DecodeCall(std::optional<CollectiveOp> op, int32_t device,
                                                      ::xla::ffi::Dictionary attributes);

// How many calls this process has decoded: each at its first execution on a GPU.
uint64_t DecodedCalls();

}  // namespace xla_shmem

#endif  // XLA_SHMEM_BINDINGS_FFI_GPU_DECODED_CALL_H_
