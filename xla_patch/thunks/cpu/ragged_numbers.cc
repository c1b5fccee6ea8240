#include "xla_patch/thunks/cpu/ragged_numbers.h"

#include <stdexcept>

namespace xla_shmem {
namespace {

std::string Named(const char* array, size_t index, int64_t value) {
  return std::string(array) + "[" + std::to_string(index) + "] is " + std::to_string(value);
}

}  // namespace

void RaggedChecks::CheckOwn(const RaggedNumbers& numbers) const {
  for (size_t i = 0; i < numbers.send_sizes.size(); ++i) {
    if (numbers.send_sizes[i] < 0) throw std::runtime_error(Named("send_sizes", i, numbers.send_sizes[i]));
    if (numbers.receive_sizes[i] < 0) throw std::runtime_error(Named("recv_sizes", i, numbers.receive_sizes[i]));
    CheckRows("input_offsets", numbers.input_offsets[i], "send_sizes", numbers.send_sizes[i], i, input_rows_,
              "operand");
    const std::string output = "output on " + PeOf(i / slices_);
    CheckRows("output_offsets", numbers.output_offsets[i], "send_sizes", numbers.send_sizes[i], i, output_rows_,
              output.c_str());
  }
}

void RaggedChecks::CheckComing(const RaggedNumbers& numbers, size_t me, size_t member,
                               const RaggedPlace* places) const {
  for (size_t slice = 0; slice < slices_; ++slice) {
    const size_t here = member * slices_ + slice, there = me * slices_ + slice;
    const auto [offset, rows] = places[slice];
    if (rows != numbers.receive_sizes[here]) {
      throw std::runtime_error(Named("recv_sizes", here, numbers.receive_sizes[here]) + ", but " +
                               Named("send_sizes", there, rows) + " on " + PeOf(member));
    }
    // The sender has checked it too, against the same number of rows if it runs the same program.
    CheckRows(("on " + PeOf(member) + " output_offsets").c_str(), offset, "send_sizes", rows, there, output_rows_,
              "output here");
  }
}

void RaggedChecks::CheckRows(const char* offsets, int64_t offset, const char* sizes, int64_t size, size_t index,
                             int64_t rows, const char* buffer) const {
  if (size == 0 || (offset >= 0 && size <= rows && offset <= rows - size)) return;
  throw std::runtime_error(Named(offsets, index, offset) + " and " + Named(sizes, index, size) + ", but the " + buffer +
                           " has " + std::to_string(rows) + " rows");
}

}  // namespace xla_shmem
