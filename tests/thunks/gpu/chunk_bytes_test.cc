#include <doctest/doctest.h>

#include <algorithm>

#include "tests/thunks/gpu/gpu_job.h"
#include "xla_patch/thunks/gpu/collective_permute.h"

namespace xla_shmem::testing {
namespace {

using gpu::ChunkBytes;
using gpu::ChunkedSeconds;

size_t Chunks(size_t bytes, size_t slot) {
  const size_t chunk = ChunkBytes(bytes, slot);
  return (bytes + chunk - 1) / chunk;
}

TEST_CASE("The number of chunks is the best one that fits the slots, and grows with the message") {
  for (const size_t slot : {size_t{4} << 10, size_t{128} << 10, size_t{4} << 20, size_t{1} << 30}) {
    size_t before = 1;
    for (size_t bytes = 1; bytes <= size_t{64} << 20; bytes += bytes / 7 + 1) {
      CAPTURE(slot);
      CAPTURE(bytes);
      const size_t chunk = ChunkBytes(bytes, slot);
      const size_t chunks = Chunks(bytes, slot);
      const size_t least = (bytes + slot - 1) / slot;
      REQUIRE(chunk >= 1);
      REQUIRE(chunk <= slot);
      REQUIRE(chunk % kPieceAlignment == 0);
      REQUIRE(chunks >= std::max(before, least));
      REQUIRE(ChunkedSeconds(bytes, chunks) <= ChunkedSeconds(bytes, chunks + 1));
      if (chunks > least) REQUIRE(ChunkedSeconds(bytes, chunks) <= ChunkedSeconds(bytes, chunks - 1));
      before = chunks;
    }
  }
}

TEST_CASE("A message below the gap's worth of bytes is one chunk, and one far above it fills slots") {
  constexpr size_t kSlot = 4 << 20;
  CHECK(Chunks(0, kSlot) == 0);
  CHECK(Chunks(1 << 20, kSlot) == 1);
  // The second chunk pays once the link could have moved the bytes of a gap.
  CHECK(Chunks(gpu::kBytesOfGap - 1000, 2 * kSlot) == 1);
  CHECK(Chunks(gpu::kBytesOfGap + 1000, 2 * kSlot) == 2);
  CHECK(ChunkBytes(size_t{1} << 30, kSlot) == kSlot);
}

TEST_CASE("All PEs cut a permute into the same chunks, whether they send, receive or both") {
  GpuJobOptions options;
  options.n_pes = 3;
  options.arena_bytes = 8 << 20;
  GpuJob job(options);
  for (const size_t bytes : {size_t{100}, size_t{1} << 19, (size_t{3} << 20) + 5}) {
    gpu::PermuteArguments permute;
    permute.buffers.bytes = {bytes, 77, 0};
    const auto of = [&](int pe, int source, int target) {
      permute.source = source;
      permute.target = target;
      std::vector<size_t> ends;
      for (const auto& pieces : gpu::ChunksOf(*job.pe(pe).rings, permute)) {
        ends.push_back(pieces.back().slot_offset + pieces.back().bytes);
      }
      return ends;
    };
    const std::vector<size_t> sent = of(0, -1, 1);
    CHECK(sent == of(1, 0, 2));
    CHECK(sent == of(2, 1, -1));
    CHECK(sent.size() == (bytes > (2 << 20) ? 4 : 1));
  }
}

}  // namespace
}  // namespace xla_shmem::testing
