// Which permutes the rings carry, and a permute over the rings (docs/protocol.md, "On GPU").
#ifndef XLA_SHMEM_THUNKS_GPU_COLLECTIVE_PERMUTE_H_
#define XLA_SHMEM_THUNKS_GPU_COLLECTIVE_PERMUTE_H_

#include <array>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/pair_rings.h"
#include "xla_patch/types/gpu_permute.h"

namespace xla_shmem::gpu {

// Whether the kernel of the lanes carries a permute of these buffers. It depends on nothing else, so all PEs choose
// alike, whether they send, receive or both.
bool IsByKernel(GpuPermute permute, const Buffers& buffers);

struct PermuteStreams {
  std::array<CudaStream, kSendStreams> send;
  CudaStream receive;
};

// Enqueues the sends on the send streams and the rest on the other one, all behind `begun`. If the results are the
// operands, all goes to the other one, between the earlier and the later commands of the send streams. Returns the
// streams that end the permute.
std::vector<CudaStream> EnqueuePermute(PairRings& rings, const PermuteArguments& permute, const PermuteStreams& streams,
                                       const EventRef& begun);

// The chunks of the permute's message, the same on all PEs.
std::vector<std::vector<Piece>> ChunksOf(const PairRings& rings, const PermuteArguments& permute);

// Enqueues the copy of `pieces` into the results. `arrived`: the slot with the source's data, null if no other PE is
// the source.
void EnqueueResults(BatchedStream& stream, const PermuteArguments& permute, const std::vector<Piece>& pieces,
                    const char* arrived);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_COLLECTIVE_PERMUTE_H_
