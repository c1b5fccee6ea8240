#include "xla_patch/bindings/ffi/ragged_operands.h"

#include <algorithm>

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// Bytes of a row along the first dimension; a buffer without dimensions has none.
size_t RowBytes(const ffi::AnyBuffer& buffer) {
  size_t bytes = ffi::ByteWidth(buffer.element_type());
  for (size_t i = 1; i < buffer.dimensions().size(); ++i) bytes *= static_cast<size_t>(buffer.dimensions()[i]);
  return bytes;
}

size_t Rows(const ffi::AnyBuffer& buffer) { return static_cast<size_t>(buffer.dimensions()[0]); }

}  // namespace

Result<RaggedOperands> ReadRaggedOperands(const std::string& name, ffi::RemainingArgs operands,
                                          ffi::RemainingRets results, size_t members) {
  constexpr size_t kOperands = 6;
  const Status mismatch =
      Status::Error(name + ": its operands are not those of a ragged all-to-all; it was not written by this xla-shmem");
  if (operands.size() != kOperands || results.size() != 1) return mismatch;
  RaggedOperands ragged;
  for (size_t i = 0; i < kOperands; ++i) {
    const ffi::ErrorOr<ffi::AnyBuffer> operand = operands.get<ffi::AnyBuffer>(i);
    if (operand.has_error() || (*operand).dimensions().size() == 0) return mismatch;
    ragged.numbers.push_back(*operand);
  }
  const ffi::AnyBuffer input = ragged.numbers[0], output = ragged.numbers[1];
  ragged.numbers.erase(ragged.numbers.begin(), ragged.numbers.begin() + 2);
  const size_t count = ragged.numbers[0].element_count();
  const bool are_alike = std::all_of(ragged.numbers.begin(), ragged.numbers.end(),
                                     [&](const ffi::AnyBuffer& numbers) { return numbers.element_count() == count; });
  ffi::ErrorOr<ffi::Result<ffi::AnyBuffer>> result = results.get<ffi::AnyBuffer>(0);
  if (!are_alike || count == 0 || count % members != 0 || result.has_error() ||
      (**result).size_bytes() != output.size_bytes() || RowBytes(input) != RowBytes(output)) {
    return mismatch;
  }
  ragged.input = static_cast<const char*>(input.untyped_data());
  ragged.output = static_cast<const char*>(output.untyped_data());
  ragged.result = static_cast<char*>((**result).untyped_data());
  ragged.row_bytes = RowBytes(output);
  ragged.input_rows = Rows(input);
  ragged.output_rows = Rows(output);
  ragged.slices = count / members;
  return ragged;
}

}  // namespace xla_shmem
