// What the two forms of all-reduce on streams share: who is who in the group, and one reduction.
#ifndef XLA_SHMEM_THUNKS_GPU_ALL_REDUCE_STEPS_H_
#define XLA_SHMEM_THUNKS_GPU_ALL_REDUCE_STEPS_H_

#include <string>
#include <vector>

#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::gpu {

// Peers of `pe` in its group, in group order, starting behind itself: so not everybody puts to the same PE first.
std::vector<int> PeersFrom(const std::vector<int>& group, int pe);

// Why this all-reduce cannot be run, or "".
std::string CheckAllReduce(const StreamAllReduce& all_reduce, int pe);

// Reduces `pieces` in group order into the results: `slot_of[i]` is where member i's contribution lies, null for our
// own, which is in the operands.
void EnqueueReduction(Device& device, const StreamAllReduce& all_reduce, const std::vector<Piece>& pieces,
                      const std::vector<const char*>& slot_of, CudaStream stream);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_ALL_REDUCE_STEPS_H_
