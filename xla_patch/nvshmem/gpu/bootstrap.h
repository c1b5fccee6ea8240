// Joins the NVSHMEM world by unique id, with the host library alone.
#ifndef XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
#define XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_

#include <cstddef>
#include <string>

#include "xla_patch/nvshmem/loader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// Bytes of a unique id (nvshmemx_uniqueid_t of NVSHMEM 3).
inline constexpr size_t kUniqueIdBytes = 128;

// Makes the id that one process sends to all others. Opens a listening socket.
Result<std::string> MakeUniqueId(const NvshmemLibrary& library);

// Collective over all PEs; afterwards `symmetric_bytes` can be allocated. The device's context must be current. Sets
// these variables of NVSHMEM unless the user has: the size of the heap, the number of teams, no NCCL (NVSHMEM's host
// reductions would run it), and no remote transport (a world is one NVLink domain).
Status JoinWorld(const NvshmemLibrary& library, int pe, int n_pes, const std::string& unique_id,
                 size_t symmetric_bytes);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
