#include "xla_patch/thunks/chunks.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace xla_shmem {
namespace {

std::vector<std::vector<Piece>> Chunks(const std::vector<ByteRange>& ranges, size_t slot_bytes) {
  std::vector<std::vector<Piece>> chunks;
  ChunkCursor cursor(&ranges, slot_bytes);
  for (auto pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) chunks.push_back(pieces);
  return chunks;
}

std::vector<size_t> RandomBuffers(std::mt19937& random) {
  std::vector<size_t> bytes(random() % 8);
  for (size_t& size : bytes) size = random() % 3 == 0 ? random() % 130 : random() % 20000;
  return bytes;
}

TEST_CASE("An empty message has no chunk") {
  CHECK(Chunks({}, 64).empty());
  CHECK(Chunks(WholeBuffers({0, 0}), 64).empty());
  CHECK(PaddedBytes(WholeBuffers({0, 0})) == 0);
}

TEST_CASE("Small buffers share a chunk, each on its own cache line") {
  const auto chunks = Chunks(WholeBuffers({1, 0, 64, 65}), 4096);
  REQUIRE(chunks.size() == 1);
  REQUIRE(chunks[0].size() == 3);
  CHECK(chunks[0][0].slot_offset == 0);
  CHECK(chunks[0][1].slot_offset == 64);
  CHECK(chunks[0][2].slot_offset == 128);
  CHECK(PaddedBytes(WholeBuffers({1, 0, 64, 65})) == 256);
}

TEST_CASE("A chunk that is exactly full is followed by one that starts at the next byte") {
  const auto chunks = Chunks(WholeBuffers({4096, 1}), 4096);
  REQUIRE(chunks.size() == 2);
  CHECK(chunks[0].size() == 1);
  CHECK(chunks[1][0].buffer == 1);
}

TEST_CASE("Chunks carry every byte exactly once, in order, aligned, and never beyond the slot") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<size_t> bytes = RandomBuffers(random);
    const size_t slot_bytes = kPieceAlignment * (1 + random() % 100);
    std::vector<size_t> done(bytes.size(), 0);
    size_t buffer = 0, chunks = 0;
    for (const auto& pieces : Chunks(WholeBuffers(bytes), slot_bytes)) {
      ++chunks;
      size_t filled = 0;
      for (const Piece& piece : pieces) {
        if (piece.buffer < buffer || piece.bytes == 0) FAIL("out of order or empty");
        buffer = piece.buffer;
        if (piece.buffer_offset != done[buffer]) FAIL("gap or overlap in a buffer");
        if (piece.slot_offset < filled || piece.slot_offset % kPieceAlignment != 0)
          FAIL("overlapping or misaligned in the slot");
        if (piece.slot_offset + piece.bytes > slot_bytes) FAIL("beyond the slot");
        // A piece ends at the end of its buffer or at a multiple of the alignment, so no element is cut.
        if (piece.buffer_offset % kPieceAlignment != 0) FAIL("a cut inside an element");
        done[buffer] += piece.bytes;
        filled = piece.slot_offset + piece.bytes;
      }
    }
    if (done != bytes) FAIL("bytes left over");
    const size_t padded = PaddedBytes(WholeBuffers(bytes));
    if (chunks != (padded + slot_bytes - 1) / slot_bytes) FAIL("more chunks than needed");
  }
}

TEST_CASE("Parts of buffers cover every byte exactly once and differ by at most a line") {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<size_t> bytes = RandomBuffers(random);
    const int parts = 1 + static_cast<int>(random() % 9);
    std::vector<size_t> done(bytes.size(), 0);
    size_t buffer = 0, smallest = SIZE_MAX, largest = 0;
    for (int part = 0; part < parts; ++part) {
      const std::vector<ByteRange> ranges = PartOfBuffers(bytes, part, parts);
      for (const ByteRange& range : ranges) {
        if (range.buffer < buffer || range.begin != done[range.buffer] || range.begin >= range.end)
          FAIL("gap or overlap");
        if (range.begin % kPieceAlignment != 0) FAIL("a cut inside an element");
        buffer = range.buffer;
        done[buffer] = range.end;
      }
      smallest = std::min(smallest, PaddedBytes(ranges));
      largest = std::max(largest, PaddedBytes(ranges));
    }
    if (done != bytes) FAIL("bytes left over");
    if (largest - smallest > kPieceAlignment) FAIL("uneven: " << smallest << " and " << largest);
  }
}

}  // namespace
}  // namespace xla_shmem
