#include "xla/backends/gpu/shmem/shmem_collective_thunk.h"

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
#include "absl/strings/string_view.h"
#include "xla/backends/gpu/runtime/collective_params.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/backends/gpu/transforms/collectives/shmem/status_macros.h"
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/attribute_map.h"
#include "xla/service/shaped_slice.h"
#include "xla/stream_executor/device_description.h"
#include "xla/stream_executor/stream.h"
#include "xla_patch/bindings/ffi/gpu/handlers.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/stable_hash.h"

namespace xla::gpu {
namespace {

using ::xla_shmem::CollectiveOp;

// Without names and numbers of instructions, which may differ between a process that has compiled the module and one
// that has loaded it. So equal collectives of a program have one hash.
uint64_t HashOf(absl::string_view module, const xla_shmem::CollectiveSpec& spec,
                const std::vector<CollectiveThunk::Buffer>& buffers) {
  uint64_t hash = xla_shmem::HashInt(xla_shmem::HashBytes(0, module), static_cast<uint64_t>(spec.op));
  const auto add = [&](uint64_t value) { hash = xla_shmem::HashInt(hash, value); };
  if (spec.reduction.has_value()) add(static_cast<uint64_t>(*spec.reduction));
  for (const xla_shmem::ElementType type : spec.element_types) add(static_cast<uint64_t>(type));
  for (const CollectiveThunk::Buffer& buffer : buffers) add(buffer.source_buffer.slice.size());
  return hash;
}

ffi::AttributesMap AttributesOf(const ShmemCollective& collective,
                                const std::vector<CollectiveThunk::Buffer>& buffers) {
  ffi::AttributesMap attributes;
  for (const auto& [key, value] : collective.arguments.members()) {
    if (const auto* number = std::get_if<int64_t>(&value)) attributes[key] = ffi::Scalar(*number);
    if (const auto* text = std::get_if<std::string>(&value)) attributes[key] = *text;
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) attributes[key] = ffi::Array(*numbers);
  }
  const uint64_t hash = HashOf(std::get<std::string>(attributes["module"].AsVariant()), collective.spec, buffers);
  attributes["op"] = ffi::Scalar(static_cast<int64_t>(xla_shmem::HashBytes(hash, collective.spec.name)));
  attributes["messages"] = ffi::Scalar(static_cast<int64_t>(hash));
  return attributes;
}

// XLA casts a thunk of kind kRaggedAllToAll to its own class when it makes graphs, without a look at the object.
Thunk::Kind KindOf(Thunk::Kind upstream) { return upstream == Thunk::kRaggedAllToAll ? Thunk::kAllToAll : upstream; }

absl::StatusOr<std::unique_ptr<CustomCallThunk>> CallOf(absl::string_view target, const CollectiveThunk& upstream,
                                                        const ShmemCollective& collective) {
  const bool is_ragged = collective.spec.op == CollectiveOp::kRaggedAllToAll;
  std::vector<NullableShapedSlice> operands;
  std::vector<NullableShapedSlice> results;
  for (const CollectiveThunk::Buffer& buffer : upstream.buffers()) {
    operands.emplace_back(buffer.source_buffer);
    if (!is_ragged) results.emplace_back(buffer.destination_buffer);
  }
  if (is_ragged) {
    if (operands.size() != 6) {
      return absl::InternalError(
          absl::StrCat(collective.spec.name, ": ", operands.size(), " buffers, of which a ragged all-to-all has 6"));
    }
    results.emplace_back(upstream.buffers()[1].destination_buffer);
  }
  for (const xla_shmem::GpuHandler& handler : xla_shmem::GpuHandlers()) {
    if (handler.target != target) continue;
    XLA_FFI_Handler_Bundle bundle = {};
    bundle.execute = handler.execute;
    SHMEM_ASSIGN_OR_RETURN(
        std::unique_ptr<CustomCallThunk> call,
        CustomCallThunk::Create(upstream.thunk_info(), std::string(target), bundle, std::move(operands),
                                std::move(results), AttributesOf(collective, upstream.buffers()),
                                /*called_computation=*/nullptr, se::GpuComputeCapability()));
    // As upstream's collectives in a graph: other devices wait for it.
    call->set_priority(se::StreamPriority::Highest);
    return call;
  }
  return absl::InternalError(absl::StrCat(target, " has no handler in this process"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmemCollectiveThunk>> ShmemCollectiveThunk::Create(
    std::unique_ptr<CollectiveThunk> upstream, const ShmemCollective& collective) {
  const xla_shmem::CollectiveOpInfo& info = xla_shmem::InfoOf(collective.spec.op);
  std::vector<const char*> targets = {info.target};
  if (collective.is_async) targets.insert(targets.end(), {info.start_target, info.done_target});
  Calls calls;
  for (const char* const target : targets) {
    SHMEM_ASSIGN_OR_RETURN(calls.emplace_back(), CallOf(target, *upstream, collective));
  }
  return std::unique_ptr<ShmemCollectiveThunk>(
      new ShmemCollectiveThunk(std::move(upstream), std::move(calls), collective.devices));
}

ShmemCollectiveThunk::ShmemCollectiveThunk(std::unique_ptr<CollectiveThunk> upstream, Calls calls,
                                           DeviceAssignment devices)
    : CollectiveThunk(KindOf(upstream->kind()), upstream->thunk_info(), upstream->buffers()),
      upstream_(std::move(upstream)),
      calls_(std::move(calls)),
      devices_(std::move(devices)) {
  for (size_t i = calls_.size() > 1 ? 1 : 0; i < calls_.size(); ++i) executed_.push_back(calls_[i].get());
}

absl::Status ShmemCollectiveThunk::Prepare(const PrepareParams& params) {
  const std::string& name = thunk_info().profile_annotation;
  if (params.collective_params == nullptr || params.collective_params->device_assn == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a collective on NVSHMEM needs a device assignment; run it on a device of the job"));
  }
  if (*params.collective_params->device_assn != devices_) {
    return absl::FailedPreconditionError(
        absl::StrCat(name,
                     ": it was compiled for other devices than it runs on, which NVSHMEM cannot change; compile "
                     "it again for these"));
  }
  SHMEM_RETURN_IF_ERROR(ShmemRuntime::Get().CheckRunning());
  for (const std::unique_ptr<CustomCallThunk>& call : calls_) SHMEM_RETURN_IF_ERROR(call->Prepare(params));
  return absl::OkStatus();
}

absl::Status ShmemCollectiveThunk::Initialize(const InitializeParams& params) {
  for (const std::unique_ptr<CustomCallThunk>& call : calls_) SHMEM_RETURN_IF_ERROR(call->Initialize(params));
  return absl::OkStatus();
}

absl::Status ShmemCollectiveThunk::ExecuteOnStream(const ExecuteParams& params) {
  for (CustomCallThunk* const call : executed_) SHMEM_RETURN_IF_ERROR(call->ExecuteOnStream(params));
  return absl::OkStatus();
}

absl::StatusOr<const se::CommandBuffer::Command*> ShmemCollectiveThunk::Record(const ExecuteParams& execute_params,
                                                                               const RecordParams& record_params,
                                                                               RecordAction record_action,
                                                                               se::CommandBuffer* command_buffer) {
  return calls_.front()->Record(execute_params, record_params, std::move(record_action), command_buffer);
}

absl::Status ShmemCollectiveThunk::RunCollective(const ExecuteParams& /*params*/, const GpuCliqueKey& /*clique_key*/,
                                                 se::Stream& /*stream*/, Communicator& /*comm*/) {
  return absl::InternalError(absl::StrCat(thunk_info().profile_annotation, ": NVSHMEM uses no communicator"));
}

}  // namespace xla::gpu
