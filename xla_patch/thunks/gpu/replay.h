// The form of a permute that CUDA graphs may capture: handshakes with constant values, all on XLA's own stream.
//
// A captured wait keeps its value, so growing counters cannot be used. Instead each slot has two words that one PE sets
// to 1 with the tag of the operation, and the other waits for and sets back to 0 (docs/protocol.md, "Replay"). All
// operations between two PEs share words and slots, because XLA runs them one after the other on one stream.
#ifndef XLA_SHMEM_THUNKS_GPU_REPLAY_H_
#define XLA_SHMEM_THUNKS_GPU_REPLAY_H_

#include <cstdint>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/pair_rings.h"

namespace xla_shmem::gpu {

// What the stream writes for the watchdog: to `word`, if it is not null, the number of the wait that comes next, and 0
// behind the last one.
struct ReplayWaits {
  uint64_t* word;
  uint64_t grant;
  uint64_t arrival;
};

void EnqueuePermuteReplay(PairRings& rings, const PermuteArguments& permute, const ReplayWaits& waits,
                          CudaStream stream);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_REPLAY_H_
