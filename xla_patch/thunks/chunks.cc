#include "xla_patch/thunks/chunks.h"

#include <algorithm>

namespace xla_shmem {

std::vector<Piece> ChunkCursor::Next() {
  std::vector<Piece> pieces;
  size_t filled = 0;
  while (range_ < ranges_->size()) {
    const ByteRange& range = (*ranges_)[range_];
    const size_t left = range.end - range.begin - consumed_;
    if (left == 0) {
      ++range_;
      consumed_ = 0;
      continue;
    }
    if (filled >= slot_bytes_) break;
    const size_t bytes = std::min(left, slot_bytes_ - filled);
    pieces.push_back({range.buffer, range.begin + consumed_, filled, bytes});
    consumed_ += bytes;
    filled = AlignedPiece(filled + bytes);
  }
  return pieces;
}

size_t PaddedBytes(const std::vector<ByteRange>& ranges) {
  size_t total = 0;
  for (const ByteRange& range : ranges) total += AlignedPiece(range.end - range.begin);
  return total;
}

std::vector<ByteRange> WholeBuffers(const std::vector<size_t>& buffer_bytes) {
  std::vector<ByteRange> ranges;
  ranges.reserve(buffer_bytes.size());
  for (size_t buffer = 0; buffer < buffer_bytes.size(); ++buffer) ranges.push_back({buffer, 0, buffer_bytes[buffer]});
  return ranges;
}

std::vector<ByteRange> PartOfBuffers(const std::vector<size_t>& buffer_bytes, int index, int parts) {
  const size_t total = PaddedBytes(WholeBuffers(buffer_bytes));
  const size_t lines = total / kPieceAlignment;
  const size_t begin = lines * index / parts * kPieceAlignment;
  const size_t end = lines * (index + 1) / parts * kPieceAlignment;
  std::vector<ByteRange> ranges;
  size_t start = 0;  // of the buffer, laid end to end
  for (size_t buffer = 0; buffer < buffer_bytes.size(); ++buffer) {
    const size_t stop = start + buffer_bytes[buffer];
    const size_t from = std::max(begin, start);
    const size_t to = std::min(end, stop);
    if (from < to) ranges.push_back({buffer, from - start, to - start});
    start += AlignedPiece(buffer_bytes[buffer]);
  }
  return ranges;
}

}  // namespace xla_shmem
