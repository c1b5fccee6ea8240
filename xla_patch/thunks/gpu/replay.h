// The forms of the collectives that CUDA graphs may capture: handshakes with constant values, all on XLA's own stream.
//
// A captured wait keeps its value, so growing counters cannot be used. Instead one PE sets a word to 1; the other waits
// for it and sets it back to 0 before the word can be used again (docs/protocol.md, "Replay"):
//   receiver: grant := 1 at the source;  sender: wait grant = 1, grant := 0, put, arrived := 1;
//   receiver: wait arrived = 1, arrived := 0, copy out. Its next use grants again only after this copy.
// All operations between two PEs share words and slot, because XLA runs them one after the other on one stream.
#ifndef XLA_SHMEM_THUNKS_GPU_REPLAY_H_
#define XLA_SHMEM_THUNKS_GPU_REPLAY_H_

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/pair_rings.h"

namespace xla_shmem::gpu {

void EnqueuePermuteReplay(PairRings& rings, const PermuteArguments& permute, CudaStream stream);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_REPLAY_H_
