// NVSHMEM's reductions on teams, for streams of CudaDouble: barrier, reduce what the members have, barrier.
#ifndef XLA_SHMEM_TESTS_THUNKS_GPU_TEAM_REDUCE_DOUBLE_H_
#define XLA_SHMEM_TESTS_THUNKS_GPU_TEAM_REDUCE_DOUBLE_H_

#include "xla_patch/nvshmem/api.h"

namespace xla_shmem::testing {

// CudaDouble::Shmem() with team barriers and reductions that work on a double's streams. The calling thread must be
// bound to its PE (tests/doubles/host_api.h).
const NvshmemApi& ShmemWithReductions();

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_GPU_TEAM_REDUCE_DOUBLE_H_
