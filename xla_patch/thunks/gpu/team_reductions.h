// NVSHMEM's own reductions, for groups that have a team (XLA_SHMEM_GPU_REDUCE=teams). They may use multicast in the
// switch, and one kernel instead of many commands. The bits of the result may differ from PE to PE.
#ifndef XLA_SHMEM_THUNKS_GPU_TEAM_REDUCTIONS_H_
#define XLA_SHMEM_THUNKS_GPU_TEAM_REDUCTIONS_H_

#include <cstddef>

#include "xla_patch/nvshmem/api.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/teams.h"
#include "xla_patch/thunks/gpu/collectives.h"

namespace xla_shmem::gpu {

struct TeamReductions {
  const NvshmemApi* api = nullptr;  // null: team reductions are off
  const Teams* teams = nullptr;
  char* staging = nullptr;  // symmetric: half for operands, half for results
  size_t staging_bytes = 0;
};

// False if the op is no all-reduce, if the group has no team or if NVSHMEM lacks a reduction.
bool CanRunOnTeam(const TeamReductions& reductions, const GroupArguments& group);

// Enqueues the all-reduce on `stream`.
void EnqueueOnTeam(Device& device, const TeamReductions& reductions, const GroupArguments& all_reduce,
                   CudaStream stream);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_TEAM_REDUCTIONS_H_
