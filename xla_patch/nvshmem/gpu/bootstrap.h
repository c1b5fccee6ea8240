// Joins the NVSHMEM world by unique id, with the host library alone.
#ifndef XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
#define XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_

#include <cstddef>
#include <string>

#include "xla_patch/nvshmem/gpu/cuda_driver.h"
#include "xla_patch/nvshmem/loader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// Bytes of a unique id (nvshmemx_uniqueid_t of NVSHMEM 3).
inline constexpr size_t kUniqueIdBytes = 128;

// Makes the id that one process sends to all others. Opens a listening socket.
Result<std::string> MakeUniqueId(const NvshmemLibrary& library);

// Collective over all PEs. The device's context must be current; it keeps its flags. NVSHMEM's variables must have been
// the same in all processes since before the unique id was made (python/xla_shmem/runtime/nvshmem_settings.py).
Status JoinWorld(const NvshmemLibrary& library, const CudaDriver& cuda, int pe, int n_pes,
                 const std::string& unique_id);

// Bytes between the start of NVSHMEM's heap and `object` of PE `pe`, which is this one; 0 if nvshmem_ptr does not show
// where the heap starts. PEs reach each other's objects only if these offsets are equal.
size_t OffsetInHeap(const NvshmemApi& api, const void* object, int pe);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_BOOTSTRAP_H_
