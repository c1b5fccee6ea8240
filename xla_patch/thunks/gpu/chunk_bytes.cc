#include "xla_patch/thunks/gpu/chunk_bytes.h"

#include <algorithm>

#include "xla_patch/thunks/chunks.h"

namespace xla_shmem::gpu {

size_t ChunkBytes(size_t message_bytes, size_t slot_bytes) {
  size_t chunks = std::max<size_t>(DivideUp(message_bytes, slot_bytes), 1);
  // The function has one minimum.
  while (ChunkedSeconds(message_bytes, chunks + 1) < ChunkedSeconds(message_bytes, chunks)) ++chunks;
  const size_t bytes = std::max<size_t>(DivideUp(message_bytes, chunks), 1);
  return std::min(DivideUp(bytes, kPieceAlignment) * kPieceAlignment, slot_bytes);
}

}  // namespace xla_shmem::gpu
