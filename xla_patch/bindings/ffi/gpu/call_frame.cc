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

// Converts a PE of the job, -1 for none, to the PE of this device's world. The pass does not move collectives across
// worlds.
Result<int> ToWorldPe(int job_pe, const GpuCallFrame& frame) {
  const int world_pe = frame.gpu->WorldPe(job_pe);
  if (job_pe >= 0 && world_pe < 0) {
    return Status::Error(frame.call.name + ": PE " + std::to_string(job_pe) +
                         " is in another NVSHMEM world; please report this");
  }
  return world_pe;
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

Result<Neighbours> ReadNeighbours(const GpuCallFrame& frame) {
  const Result<PePairs> pairs = ReadPairs(frame.attributes);
  if (!pairs.ok()) return pairs.status();
  const Neighbours in_job = FindNeighbours(*pairs, frame.gpu->job_pe());
  const Result<int> source = ToWorldPe(in_job.source, frame);
  if (!source.ok()) return source.status();
  const Result<int> target = ToWorldPe(in_job.target, frame);
  if (!target.ok()) return target.status();
  return Neighbours{*source, *target};
}

Result<std::vector<int>> ReadGroup(const GpuCallFrame& frame, CollectiveOp op) {
  const Result<PeGroups> groups = ReadGroups(frame.attributes);
  if (!groups.ok()) return groups.status();
  const int pe = frame.gpu->job_pe();
  if (op == CollectiveOp::kCollectiveBroadcast && FindGroup(*groups, pe) == nullptr) return std::vector<int>();
  Result<std::vector<int>> group = GroupOf(*groups, pe, frame.call.name);
  if (!group.ok()) return group;
  for (int& member : *group) {
    const Result<int> world_pe = ToWorldPe(member, frame);
    if (!world_pe.ok()) return world_pe.status();
    member = *world_pe;
  }
  return group;
}

std::vector<int> LocalMembers(const GpuCallFrame& frame) {
  if (GpuProcess::Get().devices().size() < 2) return {};
  std::vector<int> members;
  if (const Result<PePairs> pairs = ReadPairs(frame.attributes); pairs.ok()) {
    members = ConnectedPes(*pairs, frame.gpu->job_pe());
  } else if (const Result<PeGroups> groups = ReadGroups(frame.attributes); groups.ok()) {
    const std::vector<int>* const group = FindGroup(*groups, frame.gpu->job_pe());
    if (group != nullptr) members = *group;
  }
  std::vector<int> local;
  for (const GpuRuntime* const device : GpuProcess::Get().devices()) {
    if (!device->started() || std::count(members.begin(), members.end(), device->job_pe()) == 0) continue;
    local.push_back(device->job_pe());
  }
  if (std::count(local.begin(), local.end(), frame.gpu->job_pe()) == 0) return {};
  return local;
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
