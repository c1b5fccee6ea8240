// A collective on NVSHMEM, in the place of upstream's thunk.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_THUNK_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_THUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/collectives/gpu_clique_key.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/command.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/runtime/thunk.pb.h"
#include "xla/core/collectives/communicator.h"
#include "xla/runtime/device_id.h"
#include "xla/service/computation_placer.h"
#include "xla/service/gpu/buffer_allocations.h"
#include "xla/stream_executor/command_buffer.h"
#include "xla/stream_executor/stream.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/runtime/observe/flight_recorder.h"
#include "xla_patch/thunks/gpu/collectives.h"

namespace xla::gpu {

// The collective of a thunk, as the plugin's reader sees its instruction. Devices are global ids.
struct ShmemCollective {
  xla_shmem::CollectiveSpec spec;
  std::string name;          // "module/instruction"
  std::string source;        // "file:line"; "" if the module does not name it
  DeviceAssignment devices;  // of the module that `spec` is from
};

// The kind, the buffers and the serialised form stay upstream's, so async start and done, command buffers and profiles
// treat it as that collective. It requests no clique, so NCCL opens no communicator for it.
//
// Messages go by puts with signals (docs/protocol.md of xla-shmem). Reductions go in the order of the group, so all
// members get the same bits.
class ShmemCollectiveThunk : public CollectiveThunk {
 public:
  // Replaces `upstream`.
  ShmemCollectiveThunk(std::unique_ptr<CollectiveThunk> upstream, ShmemCollective collective);

  absl::Status Prepare(const PrepareParams& params) override;
  absl::Status Initialize(const InitializeParams& /*params*/) override { return absl::OkStatus(); }
  absl::Status ExecuteOnStream(const ExecuteParams& params) override;
  absl::StatusOr<const se::CommandBuffer::Command*> Record(const ExecuteParams& execute_params,
                                                           const RecordParams& record_params,
                                                           RecordAction record_action,
                                                           se::CommandBuffer* command_buffer) override;
  absl::StatusOr<ThunkProto> ToProto() const override { return upstream_->ToProto(); }

  // What device `own` does: of a permute, and of any other collective.
  absl::StatusOr<xla_shmem::gpu::PermuteArguments> Permute(const BufferAllocations& memory, GlobalDeviceId own) const;
  absl::StatusOr<xla_shmem::gpu::GroupArguments> Group(const BufferAllocations& memory, GlobalDeviceId own) const;

 private:
  // Enqueues the whole collective on `stream`. `capturing`: into a graph, so only commands that may be replayed.
  absl::Status Enqueue(const ExecuteParams& params, se::Stream& stream, bool capturing);
  absl::Status ReadRagged(const BufferAllocations& memory, xla_shmem::gpu::GroupArguments* group) const;
  absl::StatusOr<xla_shmem::gpu::Buffers> Buffers(const BufferAllocations& memory, size_t operand_parts,
                                                  size_t result_parts) const;
  // PEs of each group, or of the ends of each pair.
  absl::StatusOr<std::vector<std::vector<int>>> Pes() const;
  xla_shmem::observe::Site Site() const;

  const CollectiveConfig& config() const override { return config_; }
  bool RequiresRendezvous() const override { return false; }
  absl::Status RunCollective(const ExecuteParams& params, const GpuCliqueKey& clique_key, se::Stream& stream,
                             Communicator& comm) override;

  const std::unique_ptr<CollectiveThunk> upstream_;
  const ShmemCollective collective_;
  const CollectiveConfig config_;  // of NCCL's communicator, so it is empty
  const uint64_t hash_;            // of the kind, sizes and participants: equal in all processes
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_THUNK_H_
