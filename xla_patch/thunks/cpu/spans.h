// The memory of a message: buffers laid end to end, each from a position that is a multiple of 64.
//
// Both ends of a message count in positions. No element straddles a multiple of 64, so a message may be cut there, and
// its pieces may be reduced separately.
#ifndef XLA_SHMEM_THUNKS_CPU_SPANS_H_
#define XLA_SHMEM_THUNKS_CPU_SPANS_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "xla_patch/shm/copy.h"
#include "xla_patch/shm/copy_timer.h"
#include "xla_patch/thunks/chunks.h"

namespace xla_shmem {

class Spans {
 public:
  Spans() = default;
  explicit Spans(size_t count) {
    if (count > 1) spans_.reserve(count);
  }

  // Takes const memory, because one type serves both ends. The memory of a sender is never written to.
  void Add(const void* memory, size_t bytes) {
    const Span span{static_cast<char*>(const_cast<void*>(memory)), bytes, total_};
    if (count_ == 1) spans_.push_back(only_);
    count_++ == 0 ? void(only_ = span) : spans_.push_back(span);
    total_ += (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
    bytes_ += bytes;
  }

  size_t count() const { return count_; }
  // The number of positions, with the padding after the last buffer.
  size_t total() const { return total_; }
  // Without padding.
  size_t bytes() const { return bytes_; }
  char* memory(size_t span) const { return begin()[span].memory; }

  // Calls visit(span, memory, position, bytes) for the parts of the buffers that lie in [begin, end).
  template <typename Visit>
  void ForEach(size_t begin, size_t end, Visit visit) const {
    const Span* const first = this->begin();
    const Span* const last = first + count_;
    const Span* span = std::upper_bound(first, last, begin,
                                        [](size_t position, const Span& other) { return position < other.position; });
    if (span != first) --span;
    for (; span != last && span->position < end; ++span) {
      const size_t from = std::max(begin, span->position);
      const size_t to = std::min(end, span->position + span->bytes);
      if (from < to) visit(static_cast<size_t>(span - first), span->memory + (from - span->position), from, to - from);
    }
  }

  // Copy between the buffers and contiguous memory for the positions [begin, end). `copy`: which function does it.
  void CopyTo(char* memory, size_t begin, size_t end, decltype(&shm::Copy) copy = shm::Copy) const {
    const shm::ScopedCopyTimer timer;
    ForEach(begin, end, [&](size_t, const char* source, size_t position, size_t bytes) {
      copy(memory + (position - begin), source, bytes);
    });
  }
  void CopyFrom(const char* memory, size_t begin, size_t end) const {
    const shm::ScopedCopyTimer timer;
    ForEach(begin, end, [&](size_t, char* destination, size_t position, size_t bytes) {
      shm::Copy(destination, memory + (position - begin), bytes);
    });
  }

 private:
  struct Span {
    char* memory;
    size_t bytes;
    size_t position;
  };
  const Span* begin() const { return count_ == 1 ? &only_ : spans_.data(); }

  Span only_{nullptr, 0, 0};  // of a message with one buffer, which then needs no allocation
  std::vector<Span> spans_;   // of all other messages
  size_t count_ = 0;
  size_t total_ = 0;
  size_t bytes_ = 0;
};

// The part of member `index` of every buffer: `bytes[i]` bytes each, in group order.
template <typename Pointer>
Spans PartsOf(const std::vector<Pointer>& buffers, const std::vector<size_t>& bytes, size_t index) {
  Spans spans(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) spans.Add(buffers[i] + index * bytes[i], bytes[i]);
  return spans;
}

// The given ranges of the buffers.
template <typename Pointer>
Spans RangesOf(const std::vector<Pointer>& buffers, const std::vector<ByteRange>& ranges) {
  Spans spans(ranges.size());
  for (const ByteRange& range : ranges) spans.Add(buffers[range.buffer] + range.begin, range.end - range.begin);
  return spans;
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_SPANS_H_
