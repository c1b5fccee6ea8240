#include "xla_patch/bindings/ffi/gpu/call_frame.h"

#include <algorithm>

#include "xla_patch/runtime/gpu_recording.h"
#include "xla_patch/thunks/gpu/message_tag.h"
#include "xla_patch/types/stable_hash.h"

namespace xla_shmem {

namespace ffi = ::xla::ffi;

namespace {

// Without groups if the attributes cannot be read, which the handler reports.
observe::Site SiteOf(const GpuCallFrame& frame, CollectiveOp op) {
  observe::Site site{frame.call.operation, OpName(op), frame.call.name, frame.attributes.contains("pairs"), {},
                     frame.call.source};
  if (!site.is_pairs) {
    if (Result<PeGroups> groups = ReadGroups(frame.attributes); groups.ok()) site.groups = *std::move(groups);
  } else if (const Result<PePairs> pairs = ReadPairs(frame.attributes); pairs.ok()) {
    site.groups = AsGroups(*pairs);
  }
  return site;
}

// Converts a PE of the job, -1 for none, to the PE of the call's world. The pass does not move collectives across
// worlds.
Status ToWorldPe(const DecodedCall& call, int* pe) {
  const int world_pe = call.gpu->WorldPe(*pe);
  if (*pe >= 0 && world_pe < 0) {
    return Status::Error(call.identity.name + ": PE " + std::to_string(*pe) +
                         " is in another NVSHMEM world; please report this");
  }
  *pe = world_pe;
  return Status();
}

// DecodedCall::meeting. `members`: the PEs that may wait for this one in the call.
std::vector<int> MeetingOf(ffi::Dictionary attributes, const std::vector<int>& members, int pe) {
  const bool has_all = attributes.contains("on_all");
  const auto is_in = [&](int other) { return has_all || std::count(members.begin(), members.end(), other) != 0; };
  std::vector<int> local;
  if (GpuProcess::Get().devices().size() < 2 || !is_in(pe)) return local;
  for (const GpuRuntime* const device : GpuProcess::Get().devices()) {
    if (device->started() && is_in(device->job_pe())) local.push_back(device->job_pe());
  }
  return local;
}

// The PEs of which a permute of `pe` may wait: those that pairs connect with it, directly or through others.
std::vector<int> ConnectedPes(const PePairs& pairs, int pe) {
  std::vector<int> found{pe};
  for (size_t next = 0; next < found.size(); ++next) {
    const Neighbours neighbours = FindNeighbours(pairs, found[next]);
    for (const int other : {neighbours.source, neighbours.target}) {
      if (other >= 0 && std::count(found.begin(), found.end(), other) == 0) found.push_back(other);
    }
  }
  return found;
}

}  // namespace

ffi::Error ToFfiError(const Status& status) { return status.ok() ? ffi::Error::Success() : ToError(status); }

Result<CallIdentity> ReadRunnableCall(ffi::Dictionary attributes) {
  Result<CallIdentity> call = ReadIdentity(attributes);
  if (!call.ok()) return call;
  // XLA:GPU instantiates no handler for an executable that it has deserialised, so this may be the first call of ours.
  if (!GpuProcess::Get().EnsureAdmitted()) {
    return Status::Error(call->name + " cannot run here: the xla-shmem runtime is not running on this process's GPU");
  }
  XLA_SHMEM_RETURN_IF_ERROR(
      CheckTopology(attributes.get<int64_t>("topology"), GpuProcess::Get().topology_fingerprint()));
  return call;
}

Result<GpuRuntime*> FindGpu(int32_t device, const std::string& name) {
  GpuRuntime* const gpu = GpuProcess::Get().Find(device);
  if (gpu != nullptr && gpu->started()) return gpu;
  return Status::Error(name + " cannot run here: the xla-shmem runtime is not running on CUDA device " +
                       std::to_string(device) + " of this process");
}

uint32_t TagOfCall(const CallIdentity& call, ffi::Dictionary attributes) {
  uint64_t hash = call.operation;
  if (attributes.contains("messages")) {  // get() would write a message
    const ffi::ErrorOr<int64_t> messages = attributes.get<int64_t>("messages");
    if (messages.has_value()) hash = static_cast<uint64_t>(*messages);
  }
  for (const char* const name : {"pairs", "group_offsets", "groups"}) {
    if (!attributes.contains(name)) continue;
    const ffi::ErrorOr<ffi::Span<const int64_t>> numbers = attributes.get<ffi::Span<const int64_t>>(name);
    if (numbers.has_error()) continue;
    for (const int64_t number : *numbers) hash = HashInt(hash, static_cast<uint64_t>(number));
  }
  return gpu::TagOfOperation(hash);
}

Status ReadPeers(std::optional<CollectiveOp> op, ffi::Dictionary attributes, DecodedCall* call) {
  const int pe = call->gpu->job_pe();
  if (op == CollectiveOp::kCollectivePermute) {
    const Result<PePairs> pairs = ReadPairs(attributes);
    if (!pairs.ok()) return pairs.status();
    call->meeting = MeetingOf(attributes, ConnectedPes(*pairs, pe), pe);
    call->neighbours = FindNeighbours(*pairs, pe);
    XLA_SHMEM_RETURN_IF_ERROR(ToWorldPe(*call, &call->neighbours.source));
    return ToWorldPe(*call, &call->neighbours.target);
  }
  const Result<PeGroups> groups = ReadGroups(attributes);
  if (!groups.ok()) return groups.status();
  if (op == CollectiveOp::kCollectiveBroadcast && FindGroup(*groups, pe) == nullptr) {
    call->meeting = MeetingOf(attributes, {}, pe);
    return Status();
  }
  Result<std::vector<int>> group = GroupOf(*groups, pe, call->identity.name);
  if (!group.ok()) return group.status();
  call->meeting = MeetingOf(attributes, *group, pe);
  if (!op.has_value()) return Status();
  for (int& member : *group) XLA_SHMEM_RETURN_IF_ERROR(ToWorldPe(*call, &member));
  call->group = *std::move(group);
  return Status();
}

uint64_t OperandBytes(const GpuCallFrame& frame) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < frame.operands.size(); ++i) {
    if (const auto operand = frame.operands.get<ffi::AnyBuffer>(i); operand.has_value()) bytes += operand->size_bytes();
  }
  return bytes;
}

std::shared_ptr<gpu::Follower> FollowExecution(const GpuCallFrame& frame, CollectiveOp op, gpu::CudaStream stream) {
  return RecordExecution({frame.gpu, frame.call.operation, frame.call.name, OperandBytes(frame)}, stream,
                         [&] { return SiteOf(frame, op); });
}

}  // namespace xla_shmem
