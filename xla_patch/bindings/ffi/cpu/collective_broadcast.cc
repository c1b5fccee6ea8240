#include "xla_patch/thunks/cpu/collective_broadcast.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

// A PE may be in no group: its results become zeros.
Status Read(const CallFrame& frame, CollectiveBroadcastArguments* broadcast) {
  const Result<const PeGroups*> groups = GroupsOf(frame);
  if (!groups.ok()) return groups.status();
  if (const std::vector<int>* group = FindGroup(**groups, frame.pe); group != nullptr) broadcast->group = *group;
  return TakeBytes(frame, 1, broadcast);
}

const CpuHandlerRegistration cpu_collective_broadcast(
    MakeCpuHandler<CollectiveOp::kCollectiveBroadcast, CollectiveBroadcastArguments, Read>());

}  // namespace
}  // namespace xla_shmem
