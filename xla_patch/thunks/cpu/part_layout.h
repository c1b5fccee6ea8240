// Where the parts of a divided collective lie: in whole arrays, which XLA has, and in vectors of parts, which go to or
// come from the default backend.
#ifndef XLA_SHMEM_THUNKS_CPU_PART_LAYOUT_H_
#define XLA_SHMEM_THUNKS_CPU_PART_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/cpu/spans.h"

namespace xla_shmem {

// Buffers laid end to end, without padding.
template <typename Pointer>
struct Arrays {
  std::vector<Pointer> memory;
  std::vector<size_t> bytes;
};

// Part `whole` of the whole arrays is part `vector` of the vectors.
struct PartPlace {
  int64_t whole;
  int64_t vector;
};

// Ranges of equal sizes on both sides.
struct PartRanges {
  std::vector<ByteRange> whole;
  std::vector<ByteRange> vector;
};

// Cuts parts of `part_bytes` where buffers of either side end. Of a part that reaches past the end of the whole arrays
// only what lies in them counts.
PartRanges CutParts(const std::vector<size_t>& whole_bytes, const std::vector<size_t>& vector_bytes,
                    const std::vector<PartPlace>& places, size_t part_bytes);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_PART_LAYOUT_H_
