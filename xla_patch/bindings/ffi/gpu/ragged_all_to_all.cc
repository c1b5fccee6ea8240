#include <algorithm>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/handler.h"
#include "xla_patch/bindings/ffi/ragged_operands.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

const uint64_t* Numbers(const ffi::AnyBuffer& buffer) { return static_cast<const uint64_t*>(buffer.untyped_data()); }

Result<gpu::GroupArguments> Read(const GpuCallFrame& frame) {
  gpu::GroupArguments arguments;
  arguments.name = frame.call.name;
  arguments.op = CollectiveOp::kRaggedAllToAll;
  Result<std::vector<int>> group = ReadGroup(frame, arguments.op);
  if (!group.ok()) return group.status();
  arguments.group = *std::move(group);
  const Result<RaggedOperands> operands =
      ReadRaggedOperands(arguments.name, frame.operands, frame.results, arguments.group.size());
  if (!operands.ok()) return operands.status();
  const std::vector<ffi::AnyBuffer>& numbers = operands->numbers;
  if (!std::all_of(numbers.begin(), numbers.end(),
                   [](const ffi::AnyBuffer& buffer) { return buffer.element_type() == ffi::DataType::S64; })) {
    return Status::Error(arguments.name + ": its offsets and sizes are not s64; it was not written by this xla-shmem");
  }
  arguments.ragged = {operands->input,       operands->row_bytes, operands->input_rows,
                      operands->output_rows, operands->slices,    Numbers(numbers[0]),
                      Numbers(numbers[1]),   Numbers(numbers[2]), Numbers(numbers[3])};
  arguments.buffers = {{operands->output}, {operands->result}, {operands->output_rows * operands->row_bytes}};
  return arguments;
}

const GpuHandlerRegistration gpu_ragged_all_to_all =
    RegisterGpuHandlers<CollectiveOp::kRaggedAllToAll, gpu::GroupArguments, Read, &gpu::Transfers::StartGroup,
                        &gpu::Transfers::RunGroup>();

}  // namespace
}  // namespace xla_shmem
