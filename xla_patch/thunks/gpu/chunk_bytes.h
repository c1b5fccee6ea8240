// How large the chunks of a message through slots are.
#ifndef XLA_SHMEM_THUNKS_GPU_CHUNK_BYTES_H_
#define XLA_SHMEM_THUNKS_GPU_CHUNK_BYTES_H_

#include <cstddef>

namespace xla_shmem::gpu {

constexpr size_t DivideUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit; }

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

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_CHUNK_BYTES_H_
