#include "xla/backends/gpu/shmem/shmem_collective_permute_thunk.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xla/backends/gpu/runtime/collective_params.h"
#include "xla/backends/gpu/runtime/collective_permute_thunk.h"
#include "xla/backends/gpu/runtime/p2p_thunk_common.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/hlo/ir/collective_op_group_mode.h"
#include "xla/runtime/device_id.h"
#include "xla/service/computation_placer.h"
#include "xla/stream_executor/stream.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/stable_hash.h"

namespace xla::gpu {
namespace {

// PE of the device at logical id `id`, in the replica or partition of `own`; -1 for no id.
absl::StatusOr<int> PeAt(std::optional<int64_t> id, DeviceAssignment::LogicalID own, const P2PConfig& config,
                         const DeviceAssignment& devices) {
  if (!id.has_value()) return -1;
  const bool cross_replica = config.config.group_mode == CollectiveOpGroupMode::COLLECTIVE_OP_GROUP_MODE_CROSS_REPLICA;
  const int64_t device = cross_replica ? devices(*id, own.computation_id) : devices(own.replica_id, *id);
  return ShmemRuntime::Get().PeOf(GlobalDeviceId(device));
}

// The pairs have no order.
uint64_t HashOfPairs(const P2PConfig& config) {
  uint64_t hash = xla_shmem::HashInt(0, static_cast<uint64_t>(config.config.group_mode));
  for (const auto& [id, entry] : config.id_to_source_target) {
    hash += xla_shmem::HashInt(xla_shmem::HashInt(1, id), entry.target.value_or(-1));
  }
  return hash;
}

}  // namespace

ShmemCollectivePermuteThunk::ShmemCollectivePermuteThunk(const CollectivePermuteThunk& thunk)
    : ShmemThunk(thunk.thunk_info(), thunk.p2p_config(), thunk.buffers(), thunk.collectives_mode(),
                 thunk.connected_components_enabled()) {}

absl::Status ShmemCollectivePermuteThunk::Enqueue(const ExecuteParams& params, se::Stream& stream, bool capturing) {
  const CollectiveParams& collective = *params.collective_params;
  ASSIGN_OR_RETURN(const DeviceAssignment::LogicalID own,
                   collective.device_assn->LogicalIdForDevice(collective.global_device_id));
  ASSIGN_OR_RETURN(const int64_t own_id, GetCollectiveCurrentId(params.collective_params, p2p_config()));
  const P2PConfig::SourceTargetMapEntry pair = P2PConfig::GetSourceTarget(p2p_config().id_to_source_target, own_id);
  xla_shmem::gpu::PermuteArguments permute;
  permute.name = name();
  ASSIGN_OR_RETURN(permute.source, PeAt(pair.source, own, p2p_config(), *collective.device_assn));
  ASSIGN_OR_RETURN(permute.target, PeAt(pair.target, own, p2p_config(), *collective.device_assn));
  ASSIGN_OR_RETURN(permute.buffers, Buffers(params));
  permute.tag = Tag(HashOfPairs(p2p_config()), params, permute.buffers);

  xla_shmem::GpuRuntime& runtime = ShmemRuntime::Get().gpu();
  const xla_shmem::gpu::ScopedContext context(runtime.device());
  if (capturing) return ToStatus(runtime.transfers().RunPermute(permute, Native(stream)));
  // One stream for start and join: XLA has moved it beside compute already if the schedule lets the two overlap.
  RETURN_IF_ERROR(ToStatus(runtime.transfers().StartPermute(Key(params), std::move(permute), Native(stream))));
  return ToStatus(runtime.transfers().Finish(Key(params), name(), Native(stream)));
}

}  // namespace xla::gpu
