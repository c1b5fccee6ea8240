#include "xla/backends/gpu/shmem/shmem_collective_thunk.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "xla/backends/gpu/runtime/collective_params.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/shape.h"
#include "xla/stream_executor/trace_command_buffer_factory.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/runtime/gpu_recording.h"
#include "xla_patch/thunks/gpu/message_tag.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/stable_hash.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::CollectiveOp;
using ::xla_shmem::gpu::GroupArguments;
using ::xla_shmem::gpu::PermuteArguments;
using ::xla_shmem::gpu::Transfers;

xla_shmem::gpu::CudaStream Native(se::Stream& stream) { return stream.platform_specific_handle().stream; }

absl::Status ToStatus(const xla_shmem::Status& status) {
  return status.ok() ? absl::OkStatus() : absl::InternalError(absl::StrCat("NVSHMEM: ", status.message()));
}

// Without names of instructions, which may differ between processes. So equal collectives of a program have one hash.
uint64_t HashOf(const ShmemCollective& collective, const std::vector<CollectiveThunk::Buffer>& buffers) {
  const xla_shmem::CollectiveSpec& spec = collective.spec;
  const std::string module = collective.name.substr(0, collective.name.find('/'));
  uint64_t hash = xla_shmem::HashInt(xla_shmem::HashBytes(0, module), static_cast<uint64_t>(spec.op));
  const auto add = [&](uint64_t value) { hash = xla_shmem::HashInt(hash, value); };
  if (spec.reduction.has_value()) add(static_cast<uint64_t>(*spec.reduction));
  for (const xla_shmem::ElementType type : spec.element_types) add(static_cast<uint64_t>(type));
  for (const CollectiveThunk::Buffer& buffer : buffers) add(buffer.source_buffer.slice.size());
  for (const int64_t device : spec.groups.devices) add(device);
  for (const int64_t offset : spec.groups.offsets) add(offset);
  for (const auto& [source, target] : spec.pairs) add(xla_shmem::HashInt(source, target));
  return hash;
}

// An array whose first dimension counts rows.
struct Rows {
  size_t number;
  size_t bytes;  // of one
};
Rows RowsOf(const Shape& shape, size_t bytes) {
  const auto number = static_cast<size_t>(shape.dimensions(0));
  return {number, number == 0 ? 0 : bytes / number};
}

xla_shmem::Status Start(Transfers& transfers, const xla_shmem::gpu::TransferKey& key, const PermuteArguments& permute,
                        xla_shmem::gpu::CudaStream stream) {
  return transfers.StartPermute(key, permute, stream);
}
xla_shmem::Status Start(Transfers& transfers, const xla_shmem::gpu::TransferKey& key, const GroupArguments& group,
                        xla_shmem::gpu::CudaStream stream) {
  return transfers.StartGroup(key, group, stream);
}
xla_shmem::Status Run(Transfers& transfers, const PermuteArguments& permute, xla_shmem::gpu::CudaStream stream) {
  return transfers.RunPermute(permute, stream);
}
xla_shmem::Status Run(Transfers& transfers, const GroupArguments& group, xla_shmem::gpu::CudaStream stream) {
  return transfers.RunGroup(group, stream);
}

}  // namespace

ShmemCollectiveThunk::ShmemCollectiveThunk(std::unique_ptr<CollectiveThunk> upstream, ShmemCollective collective)
    : CollectiveThunk(upstream->kind(), upstream->thunk_info(), upstream->buffers()),
      upstream_(std::move(upstream)),
      collective_(std::move(collective)),
      hash_(HashOf(collective_, buffers())) {}

absl::Status ShmemCollectiveThunk::Prepare(const PrepareParams& params) {
  if (params.collective_params == nullptr || params.collective_params->device_assn == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        collective_.name, ": a collective on NVSHMEM needs a device assignment; run it on a device of the job"));
  }
  if (*params.collective_params->device_assn != collective_.devices) {
    return absl::FailedPreconditionError(
        absl::StrCat(collective_.name,
                     ": it was compiled for other devices than it runs on, which NVSHMEM cannot change; compile "
                     "it again for these"));
  }
  return ShmemRuntime::Get().CheckRunning();
}

absl::Status ShmemCollectiveThunk::ExecuteOnStream(const ExecuteParams& params) {
  return Enqueue(params, *params.stream, /*capturing=*/false);
}

absl::StatusOr<const se::CommandBuffer::Command*> ShmemCollectiveThunk::Record(const ExecuteParams& execute_params,
                                                                               const RecordParams& /*record_params*/,
                                                                               RecordAction record_action,
                                                                               se::CommandBuffer* command_buffer) {
  ASSIGN_OR_RETURN(std::unique_ptr<se::CommandBuffer> graph,
                   se::TraceCommandBufferFactory::Create(
                       execute_params.stream->parent(), execute_params.command_buffer_trace_stream,
                       [&](se::Stream* stream) { return Enqueue(execute_params, *stream, /*capturing=*/true); }));
  // As upstream's collectives do: other devices wait for it.
  RETURN_IF_ERROR(graph->SetPriority(se::StreamPriority::Highest));
  if (const auto* create = std::get_if<RecordCreate>(&record_action)) {
    return command_buffer->CreateChildCommand(*graph, create->dependencies);
  }
  const auto& update = std::get<RecordUpdate>(record_action);
  RETURN_IF_ERROR(command_buffer->UpdateChildCommand(update.command, *graph));
  return update.command;
}

absl::Status ShmemCollectiveThunk::RunCollective(const ExecuteParams& /*params*/, const GpuCliqueKey& /*clique_key*/,
                                                 se::Stream& /*stream*/, Communicator& /*comm*/) {
  return absl::InternalError(absl::StrCat(collective_.name, ": NVSHMEM uses no communicator"));
}

absl::Status ShmemCollectiveThunk::Enqueue(const ExecuteParams& params, se::Stream& stream, bool capturing) {
  const auto run = [&](auto arguments) -> absl::Status {
    arguments.name = collective_.name;
    arguments.tag = xla_shmem::gpu::TagOfOperation(hash_);
    xla_shmem::GpuRuntime& runtime = ShmemRuntime::Get().gpu();
    const xla_shmem::gpu::ScopedContext context(runtime.device());
    uint64_t bytes = 0;
    for (const Buffer& buffer : buffers()) bytes += buffer.source_buffer.slice.size();
    const uint64_t operation = xla_shmem::HashBytes(hash_, collective_.name);
    arguments.follower =
        xla_shmem::RecordExecution({operation, collective_.name, bytes}, Native(stream), [this] { return Site(); });
    if (capturing) return ToStatus(Run(runtime.transfers(), arguments, Native(stream)));
    // One stream for start and join: XLA has moved it beside compute already if the schedule lets the two overlap.
    const xla_shmem::gpu::TransferKey key = {thunk_info().thunk_id.value(), params.collective_params->run_id.ToInt()};
    RETURN_IF_ERROR(ToStatus(Start(runtime.transfers(), key, arguments, Native(stream))));
    return ToStatus(runtime.transfers().Finish(key, collective_.name, Native(stream)));
  };
  const GlobalDeviceId own = params.collective_params->global_device_id;
  if (xla_shmem::UsesPairs(collective_.spec.op)) {
    ASSIGN_OR_RETURN(PermuteArguments permute, Permute(*params.buffer_allocations, own));
    return run(std::move(permute));
  }
  ASSIGN_OR_RETURN(GroupArguments group, Group(*params.buffer_allocations, own));
  return run(std::move(group));
}

absl::StatusOr<PermuteArguments> ShmemCollectiveThunk::Permute(const BufferAllocations& memory,
                                                               GlobalDeviceId own) const {
  PermuteArguments permute;
  for (const auto& [source, target] : collective_.spec.pairs) {
    if (target == own.value()) {
      ASSIGN_OR_RETURN(permute.source, ShmemRuntime::Get().PeOf(GlobalDeviceId(source)));
    }
    if (source == own.value()) {
      ASSIGN_OR_RETURN(permute.target, ShmemRuntime::Get().PeOf(GlobalDeviceId(target)));
    }
  }
  ASSIGN_OR_RETURN(permute.buffers, Buffers(memory, 1, 1));
  return permute;
}

absl::StatusOr<GroupArguments> ShmemCollectiveThunk::Group(const BufferAllocations& memory, GlobalDeviceId own) const {
  const xla_shmem::CollectiveSpec& spec = collective_.spec;
  GroupArguments group;
  group.op = spec.op;
  ASSIGN_OR_RETURN(const int pe, ShmemRuntime::Get().PeOf(own));
  ASSIGN_OR_RETURN(std::vector<std::vector<int>> groups, Pes());
  for (std::vector<int>& members : groups) {
    if (std::find(members.begin(), members.end(), pe) != members.end()) group.group = std::move(members);
  }
  if (xla_shmem::IsReducing(spec.op)) {
    group.reduction = spec.reduction.value();
    group.types = spec.element_types;
  }
  if (spec.op == CollectiveOp::kRaggedAllToAll) {
    RETURN_IF_ERROR(ReadRagged(memory, &group));
    return group;
  }
  group.one_array_each = spec.op == CollectiveOp::kAllToAll && buffers().size() > 1;
  const size_t members = group.one_array_each ? 1 : std::max<size_t>(group.group.size(), 1);  // that share an array
  ASSIGN_OR_RETURN(group.buffers, Buffers(memory, xla_shmem::OperandParts(spec.op, members),
                                          xla_shmem::ResultParts(spec.op, members)));
  return group;
}

// XLA makes all offsets and sizes s64; the pass has vetoed others.
absl::Status ShmemCollectiveThunk::ReadRagged(const BufferAllocations& memory, GroupArguments* group) const {
  const auto address = [&](const ShapedSlice& buffer) {
    return static_cast<char*>(memory.GetDeviceAddress(buffer.slice).opaque());
  };
  if (buffers().size() != 6 || group->group.empty()) {
    return absl::InternalError(
        absl::StrCat(collective_.name, ": ", buffers().size(), " buffers, of which a ragged all-to-all has 6"));
  }
  const auto numbers = [&](size_t i) { return reinterpret_cast<const uint64_t*>(address(buffers()[i].source_buffer)); };
  const ShapedSlice& input = buffers()[0].source_buffer;
  const ShapedSlice& output = buffers()[1].destination_buffer;
  const Rows input_rows = RowsOf(input.shape, input.slice.size());
  const Rows output_rows = RowsOf(output.shape, output.slice.size());
  const size_t slices = static_cast<size_t>(buffers()[2].element_count) / group->group.size();
  group->ragged = {address(input),
                   std::max(input_rows.bytes, output_rows.bytes),
                   input_rows.number,
                   output_rows.number,
                   slices,
                   numbers(2),
                   numbers(3),
                   numbers(4),
                   numbers(5)};
  group->buffers = {
      {address(buffers()[1].source_buffer)}, {address(output)}, {group->ragged.output_rows * group->ragged.row_bytes}};
  return absl::OkStatus();
}

absl::StatusOr<xla_shmem::gpu::Buffers> ShmemCollectiveThunk::Buffers(const BufferAllocations& memory,
                                                                      size_t operand_parts, size_t result_parts) const {
  xla_shmem::gpu::Buffers found;
  for (const Buffer& buffer : buffers()) {
    const se::DeviceAddressBase source = memory.GetDeviceAddress(buffer.source_buffer.slice);
    const se::DeviceAddressBase result = memory.GetDeviceAddress(buffer.destination_buffer.slice);
    const size_t part = source.size() / operand_parts;
    if (part * operand_parts != source.size() || part * result_parts != result.size()) {
      return absl::InternalError(absl::StrCat(collective_.name, ": an operand of ", source.size(), " bytes in ",
                                              operand_parts, " parts has a result of ", result.size(), " in ",
                                              result_parts));
    }
    found.operands.push_back(static_cast<const char*>(source.opaque()));
    found.results.push_back(static_cast<char*>(const_cast<void*>(result.opaque())));
    found.bytes.push_back(part);
  }
  return found;
}

absl::StatusOr<std::vector<std::vector<int>>> ShmemCollectiveThunk::Pes() const {
  std::vector<std::vector<int64_t>> devices;
  for (const auto& [source, target] : collective_.spec.pairs) devices.push_back({source, target});
  const xla_shmem::DeviceGroups& groups = collective_.spec.groups;
  for (int64_t i = 0; i < groups.size(); ++i) {
    devices.emplace_back(groups.devices.begin() + groups.offsets[i], groups.devices.begin() + groups.offsets[i + 1]);
  }
  std::vector<std::vector<int>> pes;
  for (const std::vector<int64_t>& group : devices) {
    pes.emplace_back();
    for (const int64_t device : group) {
      ASSIGN_OR_RETURN(pes.back().emplace_back(), ShmemRuntime::Get().PeOf(GlobalDeviceId(device)));
    }
  }
  return pes;
}

xla_shmem::observe::Site ShmemCollectiveThunk::Site() const {
  const xla_shmem::CollectiveSpec& spec = collective_.spec;
  const absl::StatusOr<std::vector<std::vector<int>>> pes = Pes();
  return {xla_shmem::HashBytes(hash_, collective_.name),
          xla_shmem::OpName(spec.op),
          collective_.name,
          xla_shmem::UsesPairs(spec.op),
          pes.ok() ? *pes : std::vector<std::vector<int>>(),
          collective_.source};
}

}  // namespace xla::gpu
