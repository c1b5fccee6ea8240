#include "xla_patch/thunks/cpu/ragged_all_to_all.h"

#include <optional>

#include "xla_patch/bindings/ffi/cpu/handler.h"
#include "xla_patch/bindings/ffi/ragged_operands.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

template <typename T>
std::vector<int64_t> Widened(const ffi::AnyBuffer& buffer) {
  const T* const values = static_cast<const T*>(buffer.untyped_data());
  return std::vector<int64_t>(values, values + buffer.element_count());
}

// XLA:CPU leaves the integers as the program has them.
std::optional<std::vector<int64_t>> Integers(const ffi::AnyBuffer& buffer) {
  switch (buffer.element_type()) {
    case ffi::DataType::S8:
      return Widened<int8_t>(buffer);
    case ffi::DataType::S16:
      return Widened<int16_t>(buffer);
    case ffi::DataType::S32:
      return Widened<int32_t>(buffer);
    case ffi::DataType::S64:
      return Widened<int64_t>(buffer);
    case ffi::DataType::U8:
      return Widened<uint8_t>(buffer);
    case ffi::DataType::U16:
      return Widened<uint16_t>(buffer);
    case ffi::DataType::U32:
      return Widened<uint32_t>(buffer);
    case ffi::DataType::U64:
      return Widened<uint64_t>(buffer);
    default:
      return std::nullopt;
  }
}

Status Read(const CallFrame& frame, RaggedAllToAllArguments* ragged) {
  Result<std::vector<int>> group = OwnGroup(frame);
  if (!group.ok()) return group.status();
  ragged->group = *std::move(group);
  const Result<RaggedOperands> operands =
      ReadRaggedOperands(ragged->name, frame.operands, frame.results, ragged->group.size());
  if (!operands.ok()) return operands.status();
  ragged->input = operands->input;
  ragged->output = operands->output;
  ragged->result = operands->result;
  ragged->row_bytes = operands->row_bytes;
  ragged->input_rows = static_cast<int64_t>(operands->input_rows);
  ragged->output_rows = static_cast<int64_t>(operands->output_rows);
  RaggedNumbers& numbers = ragged->numbers;
  std::vector<int64_t>* const arrays[] = {&numbers.input_offsets, &numbers.send_sizes, &numbers.output_offsets,
                                          &numbers.receive_sizes};
  for (size_t i = 0; i < std::size(arrays); ++i) {
    std::optional<std::vector<int64_t>> integers = Integers(operands->numbers[i]);
    if (!integers.has_value()) return Status::Error(ragged->name + ": its offsets and sizes are not integers");
    *arrays[i] = *std::move(integers);
  }
  return Status();
}

const CpuHandlerRegistration cpu_ragged_all_to_all(
    MakeCpuHandler<CollectiveOp::kRaggedAllToAll, RaggedAllToAllArguments, Read>());

}  // namespace
}  // namespace xla_shmem
