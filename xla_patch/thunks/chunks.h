// Cuts a message of several buffers into chunks that fit a slot.
//
// Both ends walk the same ranges with the same slot size, so they agree on every chunk without communication. A chunk
// may hold pieces of several buffers, because combined collectives have many small tensors. Pieces start at multiples
// of 64 bytes in the slot, so reductions run on aligned memory and no element is split.
#ifndef XLA_SHMEM_THUNKS_CHUNKS_H_
#define XLA_SHMEM_THUNKS_CHUNKS_H_

#include <cstddef>
#include <vector>

namespace xla_shmem {

constexpr size_t DivideUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit; }

inline constexpr size_t kPieceAlignment = 64;

// Bytes that a piece takes in a slot, with what follows it up to the next one.
constexpr size_t AlignedPiece(size_t bytes) { return DivideUp(bytes, kPieceAlignment) * kPieceAlignment; }

// Bytes [begin, end) of buffer number `buffer`.
struct ByteRange {
  size_t buffer;
  size_t begin;
  size_t end;
};

struct Piece {
  size_t buffer;
  size_t buffer_offset;
  size_t slot_offset;
  size_t bytes;
};

class ChunkCursor {
 public:
  // `slot_bytes` is a positive multiple of kPieceAlignment.
  ChunkCursor(const std::vector<ByteRange>* ranges, size_t slot_bytes) : ranges_(ranges), slot_bytes_(slot_bytes) {}

  // The pieces of the next chunk; empty after the last.
  std::vector<Piece> Next();

 private:
  const std::vector<ByteRange>* ranges_;
  size_t slot_bytes_;
  size_t range_ = 0;
  size_t consumed_ = 0;  // of ranges_[range_]
};

// The bytes of `ranges` if each starts at a multiple of kPieceAlignment.
size_t PaddedBytes(const std::vector<ByteRange>& ranges);

// One range for each buffer, of all its bytes.
std::vector<ByteRange> WholeBuffers(const std::vector<size_t>& buffer_bytes);

// Part `index` of `parts` of the buffers laid end to end. The parts have almost equal sizes and are cut at multiples of
// kPieceAlignment.
std::vector<ByteRange> PartOfBuffers(const std::vector<size_t>& buffer_bytes, int index, int parts);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CHUNKS_H_
