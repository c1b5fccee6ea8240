// An all-reduce over the rings: one-shot or two-shot (docs/protocol.md, "All-reduce").
#ifndef XLA_SHMEM_THUNKS_GPU_ALL_REDUCE_H_
#define XLA_SHMEM_THUNKS_GPU_ALL_REDUCE_H_

#include <cstddef>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/pair_rings.h"

namespace xla_shmem::gpu {

// An all-reduce of at most this many padded bytes is one-shot: fewer steps, more bytes. To be tuned on a GPU.
inline size_t OneShotBytesOnGpu(size_t group_size) { return (512 << 10) / (group_size > 1 ? group_size - 1 : 1); }

// Enqueues the whole all-reduce on `stream`. A group of one PE is a copy.
void EnqueueAllReduce(PairRings& rings, const AllReduceArguments& all_reduce, CudaStream stream);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_ALL_REDUCE_H_
