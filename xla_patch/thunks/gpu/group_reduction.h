// The reduction of a chunk over a replica group by kernels.cu, and the order in which a PE addresses its group.
#ifndef XLA_SHMEM_THUNKS_GPU_GROUP_REDUCTION_H_
#define XLA_SHMEM_THUNKS_GPU_GROUP_REDUCTION_H_

#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/collectives.h"

namespace xla_shmem::gpu {

// Peers of `pe` in its group, in group order, starting behind `pe`: so the PEs do not all put to the same PE first.
std::vector<int> PeersFrom(const std::vector<int>& group, int pe);

// Reduces `pieces` in group order into the results. `slot_of[i]`: the address of member i's contribution; null for this
// PE's own, which is read from the operands.
void EnqueueReduction(Device& device, const AllReduceArguments& all_reduce, const std::vector<Piece>& pieces,
                      const std::vector<const char*>& slot_of, CudaStream stream);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_GROUP_REDUCTION_H_
