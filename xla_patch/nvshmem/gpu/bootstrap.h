// Joins the NVSHMEM world by unique id, with the host library alone.
#ifndef XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
#define XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_

#include <cstddef>
#include <string>

#include "xla_patch/nvshmem/loader.h"

namespace xla_shmem::gpu {

// Bytes of a unique id (nvshmemx_uniqueid_t of NVSHMEM 3).
inline constexpr size_t kUniqueIdBytes = 128;

// Makes the id that one process hands to all others. Opens a listening socket.
bool MakeUniqueId(const NvshmemLibrary& library, std::string* id, std::string* error);

// Collective over all PEs; `symmetric_bytes` can be allocated afterwards. The device's context must be current. Sets
// what NVSHMEM reads from the environment where the user has not: the size of the heap, room for teams, no NCCL (its
// host reductions would run it), and no remote transport (a world is one NVLink domain).
bool JoinWorld(const NvshmemLibrary& library, int pe, int n_pes, const std::string& unique_id, size_t symmetric_bytes,
               std::string* error);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
