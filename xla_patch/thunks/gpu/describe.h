// What a late transfer waits for, in words.
#ifndef XLA_SHMEM_THUNKS_GPU_DESCRIBE_H_
#define XLA_SHMEM_THUNKS_GPU_DESCRIBE_H_

#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/gpu/pair_rings.h"

namespace xla_shmem::gpu {

// Remembers what `rings` has enqueued waits for since the last call. The result reads those words from the GPU when it
// is called, and names the operation, the peers, and the counters seen and expected.
Watchdog::Describe DescribeLater(PairRings& rings, const std::string& name);

// The same for a self-joined transfer, whose words only say whether something is there now: names every peer that it
// may be waiting for.
Watchdog::Describe DescribeReplayLater(PairRings& rings, const std::string& name, std::vector<int> targets,
                                       std::vector<int> sources);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_DESCRIBE_H_
