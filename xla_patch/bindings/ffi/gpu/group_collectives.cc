// The handlers of all ops but permutes and ragged all-to-alls: every one reads a GroupArguments.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/bindings/ffi/gpu/handler.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {
namespace {

// Parts of an operand and of its result, as in the table of GroupArguments.
struct Parts {
  size_t operand = 1;
  size_t result = 1;
};

Parts PartsOf(const gpu::GroupArguments& arguments) {
  const size_t members = arguments.group.size();
  switch (arguments.op) {
    case CollectiveOp::kAllGather:
      return {1, members};
    case CollectiveOp::kReduceScatter:
      return {members, 1};
    case CollectiveOp::kAllToAll:
      return arguments.one_array_each ? Parts{1, 1} : Parts{members, members};
    default:
      return {1, 1};
  }
}

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
Result<gpu::GroupArguments> Read(const GpuCallFrame& frame) {
  gpu::GroupArguments arguments;
  arguments.name = frame.call.name;
  arguments.op = kOp;
  Result<std::vector<int>> group = ReadGroup(frame, kOp);
  if (!group.ok()) return group.status();
  arguments.group = *std::move(group);
  arguments.one_array_each = kOp == CollectiveOp::kAllToAll && frame.operands.size() > 1;
  const Parts parts = PartsOf(arguments);
  Result<Buffers> buffers = ReadBuffers(frame.operands, frame.results, parts.operand, parts.result);
  if (!buffers.ok()) return buffers.status();
  if (arguments.one_array_each) {
    XLA_SHMEM_RETURN_IF_ERROR(CheckOneArrayEach(frame.call.name, *buffers, arguments.group.size()));
  }
  if constexpr (IsReducing(kOp)) {
    const Result<ReductionKind> reduction = ReadReduction(frame.attributes);
    if (!reduction.ok()) return reduction.status();
    XLA_SHMEM_RETURN_IF_ERROR(CheckReducible(frame.call.name, buffers->types, *reduction, Supports));
    arguments.reduction = *reduction;
    arguments.types = std::move(buffers->types);
  }
  arguments.buffers = {std::move(buffers->operands), std::move(buffers->results), std::move(buffers->bytes)};
  return arguments;
}

template <CollectiveOp kOp>
GpuHandlerRegistration Register() noexcept {
  return RegisterGpuHandlers<kOp, gpu::GroupArguments, Read<kOp>, &gpu::Transfers::StartGroup,
                             &gpu::Transfers::RunGroup>();
}

const GpuHandlerRegistration gpu_group_collectives[] = {
    Register<CollectiveOp::kAllReduce>(),           Register<CollectiveOp::kAllGather>(),
    Register<CollectiveOp::kReduceScatter>(),       Register<CollectiveOp::kAllToAll>(),
    Register<CollectiveOp::kCollectiveBroadcast>(),
};

}  // namespace
}  // namespace xla_shmem
