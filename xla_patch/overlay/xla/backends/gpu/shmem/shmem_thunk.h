// The base of the NVSHMEM thunks: upstream's collective thunk, run without its communicator.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "xla/backends/gpu/collectives/gpu_clique_key.h"
#include "xla/backends/gpu/runtime/collective_params.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/command.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/core/collectives/communicator.h"
#include "xla/service/computation_placer.h"
#include "xla/stream_executor/command_buffer.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/trace_command_buffer_factory.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/message_tag.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/stable_hash.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {

// `Base` is a CollectiveThunk. The kind stays upstream's, so async start and done, command buffers and profiles treat
// it as that collective. It requests no clique, so NCCL opens no communicator for it.
template <typename Base>
class ShmemThunk : public Base {
 public:
  using Base::Base;

  absl::Status Prepare(const Thunk::PrepareParams& params) override {
    // Upstream checks this too. The transfers find their peers by it.
    if (params.collective_params == nullptr || params.collective_params->device_assn == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(name(), ": a collective on NVSHMEM needs a device assignment; run it on a device of the job"));
    }
    return ShmemRuntime::Get().CheckRunning();
  }
  absl::Status Initialize(const Thunk::InitializeParams& /*params*/) override { return absl::OkStatus(); }

  absl::Status ExecuteOnStream(const Thunk::ExecuteParams& params) override {
    return Enqueue(params, *params.stream, /*capturing=*/false);
  }

  absl::StatusOr<const se::CommandBuffer::Command*> Record(const Thunk::ExecuteParams& execute_params,
                                                           const Command::RecordParams& /*record_params*/,
                                                           Command::RecordAction record_action,
                                                           se::CommandBuffer* command_buffer) override {
    ASSIGN_OR_RETURN(std::unique_ptr<se::CommandBuffer> graph,
                     se::TraceCommandBufferFactory::Create(
                         execute_params.stream->parent(), execute_params.command_buffer_trace_stream,
                         [&](se::Stream* stream) { return Enqueue(execute_params, *stream, /*capturing=*/true); }));
    // As upstream's collectives do: other devices wait for it.
    RETURN_IF_ERROR(graph->SetPriority(se::StreamPriority::Highest));
    if (const auto* create = std::get_if<Command::RecordCreate>(&record_action)) {
      return command_buffer->CreateChildCommand(*graph, create->dependencies);
    }
    const auto& update = std::get<Command::RecordUpdate>(record_action);
    RETURN_IF_ERROR(command_buffer->UpdateChildCommand(update.command, *graph));
    return update.command;
  }

 protected:
  // Enqueues the whole collective on `stream`. `capturing`: into a graph, so only commands that graphs hold.
  virtual absl::Status Enqueue(const Thunk::ExecuteParams& params, se::Stream& stream, bool capturing) = 0;

  // Identifies one execution of this thunk.
  xla_shmem::gpu::TransferKey Key(const Thunk::ExecuteParams& params) const {
    return {this->thunk_info().thunk_id.value(), params.collective_params->run_id.ToInt()};
  }

  // The tag of this collective's messages. A thunk does not know its program, so collectives of the same kind, types,
  // sizes and devices have one tag. `hash`: of the kind, and of the PEs that it connects.
  uint32_t Tag(uint64_t hash, const Thunk::ExecuteParams& params, const xla_shmem::gpu::Buffers& buffers) const {
    const DeviceAssignment& devices = *params.collective_params->device_assn;
    for (int replica = 0; replica < devices.replica_count(); ++replica) {
      for (int computation = 0; computation < devices.computation_count(); ++computation) {
        hash = xla_shmem::HashInt(hash, devices(replica, computation));
      }
    }
    for (const size_t bytes : buffers.bytes) hash = xla_shmem::HashInt(hash, bytes);
    return xla_shmem::gpu::TagOfOperation(hash);
  }

  const std::string& name() const { return this->thunk_info().profile_annotation; }

  static xla_shmem::gpu::CudaStream Native(se::Stream& stream) { return stream.platform_specific_handle().stream; }

  static absl::Status ToStatus(const xla_shmem::Status& status) {
    return status.ok() ? absl::OkStatus() : absl::InternalError(absl::StrCat("NVSHMEM: ", status.message()));
  }

  absl::StatusOr<xla_shmem::gpu::Buffers> Buffers(const Thunk::ExecuteParams& params) const {
    xla_shmem::gpu::Buffers buffers;
    for (const CollectiveThunk::Buffer& buffer : this->buffers()) {
      const se::DeviceAddressBase source = params.buffer_allocations->GetDeviceAddress(buffer.source_buffer.slice);
      const se::DeviceAddressBase result = params.buffer_allocations->GetDeviceAddress(buffer.destination_buffer.slice);
      if (source.size() != result.size()) {
        return absl::InternalError(
            absl::StrCat(name(), ": an operand of ", source.size(), " bytes has a result of ", result.size()));
      }
      buffers.operands.push_back(static_cast<const char*>(source.opaque()));
      buffers.results.push_back(static_cast<char*>(const_cast<void*>(result.opaque())));
      buffers.bytes.push_back(source.size());
    }
    return buffers;
  }

 private:
  bool RequiresRendezvous() const override { return false; }
  absl::Status RunCollective(const Thunk::ExecuteParams& /*params*/, const GpuCliqueKey& /*clique_key*/,
                             se::Stream& /*stream*/, Communicator& /*comm*/) override {
    return absl::InternalError(absl::StrCat(name(), ": NVSHMEM uses no communicator"));
  }
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_THUNK_H_
