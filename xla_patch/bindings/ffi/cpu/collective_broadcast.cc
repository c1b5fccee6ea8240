#include "xla_patch/thunks/cpu/collective_broadcast.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

// A PE may be in no group: its results become zeros.
bool Read(const CallFrame& frame, CollectiveBroadcastArguments* broadcast, std::string* error) {
  const PeGroups* groups = nullptr;
  if (!TakeGroups(frame, &groups, error)) return false;
  const std::vector<int>* group = FindGroup(*groups, frame.pe);
  if (group != nullptr) broadcast->group = *group;
  return TakeBytes(frame, 1, broadcast, error);
}

const CpuHandlerRegistration registration(
    MakeCpuHandler<CollectiveOp::kCollectiveBroadcast, CollectiveBroadcastOperation, CollectiveBroadcastArguments,
                   Read>());

}  // namespace
}  // namespace xla_shmem
