// Which permutes the rings carry, and a permute over the rings (docs/protocol.md, "On GPU").
#ifndef XLA_SHMEM_THUNKS_GPU_COLLECTIVE_PERMUTE_H_
#define XLA_SHMEM_THUNKS_GPU_COLLECTIVE_PERMUTE_H_

#include <array>
#include <cstddef>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/pair_rings.h"
#include "xla_patch/types/gpu_permute.h"

namespace xla_shmem::gpu {

// One direction of NVLink 4: half of the 900 GB/s that NVIDIA states for an H100.
inline constexpr double kLinkBytesPerSecond = 450e9;
// Time for which the link is idle between two chunks: memory operations and the start of a copy. On an H200 a pair of
// 4 MiB in three chunks took 58 us without the host's time, and one kernel 17 (docs/gpu/2026-11-27-h200-mps.json): 12
// us a chunk, at least a few of which are the pair's. That was with one send stream; two hide a part of it, which has
// not been measured.
inline constexpr double kGapSeconds = 10e-6;
// What the link moves in a gap, 4.5 MB. Up to here a message is one chunk, if a slot holds it.
inline constexpr auto kBytesOfGap = static_cast<size_t>(kGapSeconds * kLinkBytesPerSecond);

// The part of a message's time that depends on the number of chunks: the gaps, the first copy, which fills the
// pipeline, and the last copy, which empties it.
constexpr double ChunkedSeconds(size_t bytes, size_t chunks) {
  return static_cast<double>(chunks) * kGapSeconds +
         2 * static_cast<double>(bytes) / static_cast<double>(chunks) / kLinkBytesPerSecond;
}

// The chunk, at most a slot, for which ChunkedSeconds is smallest: a multiple of 64 bytes (chunks.h). Both ends of a
// message compute it from the same numbers.
size_t ChunkBytes(size_t message_bytes, size_t slot_bytes);

// Whether kernels carry an overlapping permute of these buffers. It depends on nothing else, so all PEs choose
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

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_COLLECTIVE_PERMUTE_H_
