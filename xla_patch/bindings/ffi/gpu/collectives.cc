// The handlers of all ops: every one but the permute reads a GroupArguments.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/handler.h"
#include "xla_patch/bindings/ffi/ragged_operands.h"

namespace xla_shmem {
namespace {

namespace ffi = ::xla::ffi;

// The buffers of an all-to-all with one array for each member.
Status CheckOneArrayEach(const std::string& name, const Buffers& buffers, size_t members) {
  const auto is_like_first = [&](size_t bytes) { return bytes == buffers.bytes[0]; };
  if (buffers.bytes.size() == members && std::all_of(buffers.bytes.begin(), buffers.bytes.end(), is_like_first)) {
    return Status();
  }
  return Status::Error(name + ": its " + std::to_string(buffers.bytes.size()) +
                       " operands are not one array of the same size for each of " + std::to_string(members) +
                       " members; it was not written by this xla-shmem");
}

template <CollectiveOp kOp>
Result<gpu::GroupArguments> ReadGroupCollective(const GpuCallFrame& frame) {
  gpu::GroupArguments arguments;
  arguments.name = frame.call.name;
  arguments.op = kOp;
  arguments.group = frame.decoded.group;
  arguments.one_array_each = kOp == CollectiveOp::kAllToAll && frame.operands.size() > 1;
  const size_t members = arguments.one_array_each ? 1 : arguments.group.size();  // that share an array
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, OperandParts(kOp, members),
                                        ResultParts(kOp, members), IsReducing(kOp));
  if (!buffers.ok()) return buffers.status();
  if (arguments.one_array_each) {
    XLA_SHMEM_RETURN_IF_ERROR(CheckOneArrayEach(frame.call.name, *buffers, arguments.group.size()));
  }
  if constexpr (IsReducing(kOp)) {
    const Result<ReductionKind> reduction = ReadReduction(frame.attributes);
    if (!reduction.ok()) return reduction.status();
    XLA_SHMEM_RETURN_IF_ERROR(CheckReducible(frame.call.name, buffers->types, *reduction));
    arguments.reduction = *reduction;
    arguments.types = std::move(buffers->types);
  }
  arguments.buffers = {std::move(buffers->operands), std::move(buffers->results), std::move(buffers->bytes)};
  return arguments;
}

Result<gpu::PermuteArguments> ReadWholePermute(const GpuCallFrame& frame) {
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, 1, 1, /*with_types=*/false);
  if (!buffers.ok()) return buffers.status();
  gpu::PermuteArguments permute;
  permute.name = frame.call.name;
  permute.source = frame.decoded.neighbours.source;
  permute.target = frame.decoded.neighbours.target;
  permute.buffers = {std::move(buffers->operands), std::move(buffers->results), std::move(buffers->bytes)};
  return permute;
}

const uint64_t* Words(const ffi::AnyBuffer& buffer) { return static_cast<const uint64_t*>(buffer.untyped_data()); }

Result<gpu::GroupArguments> ReadRagged(const GpuCallFrame& frame) {
  gpu::GroupArguments arguments;
  arguments.name = frame.call.name;
  arguments.op = CollectiveOp::kRaggedAllToAll;
  arguments.group = frame.decoded.group;
  const Result<RaggedOperands> operands =
      ReadRaggedOperands(arguments.name, frame.operands, frame.results, arguments.group.size());
  if (!operands.ok()) return operands.status();
  const std::vector<ffi::AnyBuffer>& numbers = operands->numbers;
  if (!std::all_of(numbers.begin(), numbers.end(),
                   [](const ffi::AnyBuffer& buffer) { return buffer.element_type() == ffi::DataType::S64; })) {
    return Status::Error(arguments.name + ": its offsets and sizes are not s64; it was not written by this xla-shmem");
  }
  arguments.ragged = {operands->input,
                      operands->row_bytes,
                      operands->input_rows,
                      operands->output_rows,
                      static_cast<int>(operands->slices),
                      Words(numbers[0]),
                      Words(numbers[1]),
                      Words(numbers[2]),
                      Words(numbers[3])};
  arguments.buffers = {{operands->output}, {operands->result}, {operands->output_rows * operands->row_bytes}};
  return arguments;
}

template <CollectiveOp kOp, Result<gpu::GroupArguments> (*Read)(const GpuCallFrame&) = ReadGroupCollective<kOp>>
GpuHandlerRegistration RegisterGroup() noexcept {
  return RegisterGpuHandlers<kOp, gpu::GroupArguments, Read, &gpu::Transfers::StartGroup, &gpu::Transfers::RunGroup>();
}

const GpuHandlerRegistration gpu_collectives[] = {
    RegisterGroup<CollectiveOp::kAllReduce>(),
    RegisterGroup<CollectiveOp::kAllGather>(),
    RegisterGroup<CollectiveOp::kReduceScatter>(),
    RegisterGroup<CollectiveOp::kAllToAll>(),
    RegisterGroup<CollectiveOp::kCollectiveBroadcast>(),
    RegisterGroup<CollectiveOp::kRaggedAllToAll, ReadRagged>(),
    RegisterGpuHandlers<CollectiveOp::kCollectivePermute, gpu::PermuteArguments, ReadWholePermute,
                        &gpu::Transfers::StartPermute, &gpu::Transfers::RunPermute>(),
};

}  // namespace
}  // namespace xla_shmem
