#include "xla/backends/gpu/shmem/shmem_all_reduce_thunk.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "xla/backends/gpu/runtime/all_reduce_thunk.h"
#include "xla/backends/gpu/runtime/collective_params.h"
#include "xla/backends/gpu/runtime/thunk.pb.h"
#include "xla/backends/gpu/shmem/shmem_runtime.h"
#include "xla/core/collectives/reduction_kind.h"
#include "xla/runtime/device_id.h"
#include "xla/service/collective_ops_utils.h"
#include "xla/stream_executor/stream.h"
#include "xla/tsl/platform/status_macros.h"
#include "xla/xla_data.pb.h"
#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"
#include "xla_patch/types/stable_hash.h"

namespace xla::gpu {
namespace {

using ShmemType = ::xla_shmem::ElementType;
using ShmemReduction = ::xla_shmem::ReductionKind;

// The numbers are the same.
ShmemType ToShmemType(PrimitiveType type) { return static_cast<ShmemType>(type); }

ShmemReduction ToShmemReduction(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::SUM:
      return ShmemReduction::kSum;
    case ReductionKind::PRODUCT:
      return ShmemReduction::kProd;
    case ReductionKind::MIN:
      return ShmemReduction::kMin;
    case ReductionKind::MAX:
      return ShmemReduction::kMax;
  }
}

uint64_t HashOf(const CollectiveConfig& config, const xla_shmem::gpu::GroupArguments& all_reduce) {
  uint64_t hash = xla_shmem::HashInt(2, static_cast<uint64_t>(config.group_mode));
  for (const ReplicaGroup& group : config.replica_groups) {
    hash = xla_shmem::HashInt(hash, group.replica_ids_size());
    for (const int64_t id : group.replica_ids()) hash = xla_shmem::HashInt(hash, id);
  }
  hash = xla_shmem::HashInt(hash, static_cast<uint64_t>(all_reduce.reduction));
  for (const ShmemType type : all_reduce.types) hash = xla_shmem::HashInt(hash, static_cast<uint64_t>(type));
  return hash;
}

}  // namespace

ShmemAllReduceThunk::ShmemAllReduceThunk(const AllReduceThunk& thunk)
    : ShmemThunk(Thunk::kAllReduce, thunk.thunk_info(), AllReduceConfig{thunk.config(), thunk.reduction_kind()},
                 thunk.buffers()) {}

bool ShmemAllReduceThunk::Carries(const AllReduceThunk& thunk) {
  const std::vector<PrimitiveType>& types = thunk.config().operand_element_type;
  const ShmemReduction reduction = ToShmemReduction(thunk.reduction_kind());
  return std::all_of(types.begin(), types.end(), [&](PrimitiveType type) {
    return xla_shmem::gpu::FindKernelReduction(ToShmemType(type), reduction).has_value();
  });
}

absl::Status ShmemAllReduceThunk::Enqueue(const ExecuteParams& params, se::Stream& stream, bool capturing) {
  const CollectiveParams& collective = *params.collective_params;
  xla_shmem::gpu::GroupArguments all_reduce;
  all_reduce.name = name();
  all_reduce.reduction = ToShmemReduction(reduction_kind());
  for (const PrimitiveType type : config().operand_element_type) {
    if (!xla_shmem::gpu::FindKernelReduction(ToShmemType(type), all_reduce.reduction).has_value()) {
      return absl::InternalError(absl::StrCat(name(), ": NVSHMEM does not reduce ", PrimitiveType_Name(type)));
    }
    all_reduce.types.push_back(ToShmemType(type));
  }
  ASSIGN_OR_RETURN(const std::vector<GlobalDeviceId> group,
                   GetParticipatingDevices(collective.global_device_id, *collective.device_assn,
                                           config().replica_groups, config().group_mode));
  for (const GlobalDeviceId device : group) {
    ASSIGN_OR_RETURN(all_reduce.group.emplace_back(), ShmemRuntime::Get().PeOf(device));
  }
  ASSIGN_OR_RETURN(all_reduce.buffers, Buffers(params));
  all_reduce.tag = Tag(HashOf(config(), all_reduce), params, all_reduce.buffers);

  xla_shmem::GpuRuntime& runtime = ShmemRuntime::Get().gpu();
  const xla_shmem::gpu::ScopedContext context(runtime.device());
  if (capturing) return ToStatus(runtime.transfers().RunGroup(all_reduce, Native(stream)));
  // One stream for start and join: XLA has moved it beside compute already if the schedule lets the two overlap.
  RETURN_IF_ERROR(ToStatus(runtime.transfers().StartGroup(Key(params), all_reduce, Native(stream))));
  return ToStatus(runtime.transfers().Finish(Key(params), name(), Native(stream)));
}

absl::StatusOr<ThunkProto> ShmemAllReduceThunk::ToProto() const {
  ThunkProto proto;
  *proto.mutable_thunk_info() = thunk_info().ToProto();
  AllReduceThunkProto* const thunk_proto = proto.mutable_all_reduce_thunk();
  for (const Buffer& buffer : buffers()) {
    ASSIGN_OR_RETURN(*thunk_proto->add_buffers(), buffer.ToProto());
  }
  *thunk_proto->mutable_collective_config() = config().ToProto();
  thunk_proto->set_reduction_kind(ToReductionKindProto(reduction_kind()));
  return proto;
}

}  // namespace xla::gpu
