// The words of the watchdog's error about a late transfer: what it waits for.
#ifndef XLA_SHMEM_THUNKS_GPU_LATE_TRANSFER_H_
#define XLA_SHMEM_THUNKS_GPU_LATE_TRANSFER_H_

#include <string>

#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/gpu/pair_rings.h"

namespace xla_shmem::gpu {

// Takes the waits that `rings` has enqueued since the last call.
LateTransfer DescribeLateTransfer(PairRings& rings, const std::string& name);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_LATE_TRANSFER_H_
