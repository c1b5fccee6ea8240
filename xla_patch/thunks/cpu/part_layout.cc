#include "xla_patch/thunks/cpu/part_layout.h"

#include <algorithm>

namespace xla_shmem {
namespace {

// A place in buffers that are laid end to end.
class Cursor {
 public:
  Cursor(const std::vector<size_t>& bytes, size_t offset) : bytes_(bytes), offset_(offset) { SkipEnds(); }

  // Bytes up to the end of the buffer; 0 behind the last one.
  size_t left() const { return buffer_ < bytes_.size() ? bytes_[buffer_] - offset_ : 0; }

  ByteRange Take(size_t bytes) {
    const ByteRange range{buffer_, offset_, offset_ + bytes};
    offset_ += bytes;
    SkipEnds();
    return range;
  }

 private:
  void SkipEnds() {
    for (; buffer_ < bytes_.size() && offset_ >= bytes_[buffer_]; ++buffer_) offset_ -= bytes_[buffer_];
  }

  const std::vector<size_t>& bytes_;
  size_t buffer_ = 0;
  size_t offset_;
};

}  // namespace

PartRanges CutParts(const std::vector<size_t>& whole_bytes, const std::vector<size_t>& vector_bytes,
                    const std::vector<PartPlace>& places, size_t part_bytes) {
  PartRanges ranges;
  for (const PartPlace& place : places) {
    Cursor whole(whole_bytes, static_cast<size_t>(place.whole) * part_bytes);
    Cursor vector(vector_bytes, static_cast<size_t>(place.vector) * part_bytes);
    for (size_t left = part_bytes; left > 0;) {
      const size_t bytes = std::min({left, whole.left(), vector.left()});
      if (bytes == 0) break;
      ranges.whole.push_back(whole.Take(bytes));
      ranges.vector.push_back(vector.Take(bytes));
      left -= bytes;
    }
  }
  return ranges;
}

}  // namespace xla_shmem
