// A collective on NVSHMEM, in the place of upstream's thunk.
#ifndef XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_THUNK_H_
#define XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_THUNK_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/collectives/gpu_clique_key.h"
#include "xla/backends/gpu/runtime/collective_thunk.h"
#include "xla/backends/gpu/runtime/command.h"
#include "xla/backends/gpu/runtime/custom_call_thunk.h"
#include "xla/backends/gpu/runtime/thunk.h"
#include "xla/backends/gpu/runtime/thunk.pb.h"
#include "xla/core/collectives/communicator.h"
#include "xla/service/computation_placer.h"
#include "xla/stream_executor/command_buffer.h"
#include "xla/stream_executor/stream.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/hlo/proto/mlir_dictionary.h"

namespace xla::gpu {

// The collective of a thunk, as the plugin's reader sees its instruction.
struct ShmemCollective {
  xla_shmem::CollectiveSpec spec;
  xla_shmem::hlo::MlirDictionary arguments;  // of the plugin's call (hlo/rewrite/call_arguments.h)
  DeviceAssignment devices;                  // of the module that `spec` is from
  bool is_async = false;                     // XLA runs its thunk on another stream than the rest of the program
};

// Runs the call that the plugin puts in the place of the collective, and if XLA overlaps it the plugin's two: their
// messages do not meet those of the calls and graphs on XLA's main stream. The kind (but of a ragged all-to-all), the
// buffers and the serialised form stay upstream's, so async start and done, command buffers and profiles treat it as
// that collective. It requests no clique, so NCCL opens no communicator for it.
class ShmemCollectiveThunk : public CollectiveThunk {
 public:
  // Replaces `upstream`. Internal if it has other buffers than XLA gives its kind.
  static absl::StatusOr<std::unique_ptr<ShmemCollectiveThunk>> Create(std::unique_ptr<CollectiveThunk> upstream,
                                                                      const ShmemCollective& collective);

  absl::Status Prepare(const PrepareParams& params) override;
  absl::Status Initialize(const InitializeParams& params) override;
  absl::Status ExecuteOnStream(const ExecuteParams& params) override;
  absl::StatusOr<const se::CommandBuffer::Command*> Record(const ExecuteParams& execute_params,
                                                           const RecordParams& record_params,
                                                           RecordAction record_action,
                                                           se::CommandBuffer* command_buffer) override;
  absl::StatusOr<ThunkProto> ToProto() const override { return upstream_->ToProto(); }

  // The whole collective.
  const CustomCallThunk& call() const { return *calls_.front(); }
  // What runs outside of CUDA graphs.
  const std::vector<CustomCallThunk*>& executed() const { return executed_; }

 private:
  using Calls = std::vector<std::unique_ptr<CustomCallThunk>>;  // the whole; if XLA overlaps it, start and done too

  ShmemCollectiveThunk(std::unique_ptr<CollectiveThunk> upstream, Calls calls, DeviceAssignment devices);

  const CollectiveConfig& config() const override { return config_; }
  bool RequiresRendezvous() const override { return false; }
  absl::Status RunCollective(const ExecuteParams& params, const GpuCliqueKey& clique_key, se::Stream& stream,
                             Communicator& comm) override;

  const std::unique_ptr<CollectiveThunk> upstream_;
  const Calls calls_;
  std::vector<CustomCallThunk*> executed_;
  const DeviceAssignment devices_;
  const CollectiveConfig config_;  // of NCCL's communicator, so it is empty
};

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_SHMEM_SHMEM_COLLECTIVE_THUNK_H_
