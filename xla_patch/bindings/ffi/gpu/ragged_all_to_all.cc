#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/handler.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// Rows of `row_bytes`; none if the buffer is not made of them.
std::optional<size_t> RowsOf(const ffi::AnyBuffer& buffer, size_t row_bytes) {
  if (buffer.dimensions().size() == 0) return std::nullopt;
  const auto rows = static_cast<size_t>(buffer.dimensions()[0]);
  return rows * row_bytes == buffer.size_bytes() ? std::optional<size_t>(rows) : std::nullopt;
}

size_t RowBytes(const ffi::AnyBuffer& buffer) {
  return buffer.dimensions().size() == 0 || buffer.dimensions()[0] == 0
             ? 0
             : buffer.size_bytes() / static_cast<size_t>(buffer.dimensions()[0]);
}

const uint64_t* Numbers(const ffi::AnyBuffer& buffer) { return static_cast<const uint64_t*>(buffer.untyped_data()); }

// The operands: input, output, input offsets, send sizes, output offsets, receive sizes.
std::optional<std::vector<ffi::AnyBuffer>> ReadOperands(const GpuCallFrame& frame, size_t members) {
  constexpr size_t kOperands = 6;
  if (frame.operands.size() != kOperands || frame.results.size() != 1) return std::nullopt;
  std::vector<ffi::AnyBuffer> operands;
  for (size_t i = 0; i < kOperands; ++i) {
    const ffi::ErrorOr<ffi::AnyBuffer> operand = frame.operands.get<ffi::AnyBuffer>(i);
    if (operand.has_error()) return std::nullopt;
    operands.push_back(*operand);
    if (i < 2) continue;
    const size_t count = operands[i].element_count();
    if (operands[i].element_type() != ffi::DataType::S64 || count == 0 || count % members != 0 ||
        count != operands[2].element_count()) {
      return std::nullopt;
    }
  }
  return operands;
}

Result<gpu::GroupArguments> Read(const GpuCallFrame& frame) {
  gpu::GroupArguments arguments;
  arguments.name = frame.call.name;
  arguments.op = CollectiveOp::kRaggedAllToAll;
  Result<std::vector<int>> group = ReadGroup(frame, arguments.op);
  if (!group.ok()) return group.status();
  arguments.group = *std::move(group);
  const Status mismatch = Status::Error(
      arguments.name + ": its operands are not those of a ragged all-to-all; it was not written by this xla-shmem");
  const auto operands = ReadOperands(frame, arguments.group.size());
  if (!operands.has_value()) return mismatch;
  const ffi::AnyBuffer& input = (*operands)[0];
  const ffi::AnyBuffer& output = (*operands)[1];
  ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = frame.results.get<ffi::AnyBuffer>(0);
  gpu::RaggedRows& rows = arguments.ragged;
  rows.row_bytes = RowBytes(output);
  const std::optional<size_t> output_rows = RowsOf(output, rows.row_bytes);
  const std::optional<size_t> input_rows = rows.row_bytes == 0 ? size_t{0} : RowsOf(input, rows.row_bytes);
  if (!input_rows.has_value() || !output_rows.has_value() || result.has_error() ||
      (**result).size_bytes() != output.size_bytes()) {
    return mismatch;
  }
  rows.input = static_cast<const char*>(input.untyped_data());
  rows.input_rows = *input_rows;
  rows.output_rows = *output_rows;
  rows.slices = (*operands)[2].element_count() / arguments.group.size();
  rows.input_offsets = Numbers((*operands)[2]);
  rows.send_sizes = Numbers((*operands)[3]);
  rows.output_offsets = Numbers((*operands)[4]);
  rows.receive_sizes = Numbers((*operands)[5]);
  arguments.buffers = {{static_cast<const char*>(output.untyped_data())},
                       {static_cast<char*>((**result).untyped_data())},
                       {output.size_bytes()}};
  return arguments;
}

const GpuHandlerRegistration registration =
    RegisterGpuHandlers<CollectiveOp::kRaggedAllToAll, gpu::GroupArguments, Read, &gpu::Transfers::StartGroup,
                        &gpu::Transfers::RunGroup>();

}  // namespace
}  // namespace xla_shmem
