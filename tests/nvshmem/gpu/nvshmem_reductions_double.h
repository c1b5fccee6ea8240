// Doubles NVSHMEM's reductions on teams, for streams of CudaDouble: barrier, reduction of the members' data, barrier.
#ifndef XLA_SHMEM_TESTS_NVSHMEM_GPU_NVSHMEM_REDUCTIONS_DOUBLE_H_
#define XLA_SHMEM_TESTS_NVSHMEM_GPU_NVSHMEM_REDUCTIONS_DOUBLE_H_

#include "xla_patch/nvshmem/api.h"

namespace xla_shmem::testing {

// CudaDouble::Shmem() with reductions. The calling thread must be bound to its PE (tests/doubles/nvshmem_host_api.h).
const NvshmemApi& ShmemWithReductions();

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_NVSHMEM_GPU_NVSHMEM_REDUCTIONS_DOUBLE_H_
