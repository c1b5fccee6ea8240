#include "xla_patch/thunks/cpu/all_to_all.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

// On either side one array that is cut among the members, or one array for each of them.
Status Read(const CallFrame& frame, AllToAllArguments* all_to_all) {
  Result<std::vector<int>> group = OwnGroup(frame);
  if (!group.ok()) return group.status();
  all_to_all->group = *std::move(group);
  const Result<Buffers> parts = ReadParts(frame.operands, frame.results, all_to_all->group.size());
  if (!parts.ok()) return parts.status();
  for (const char* operand : parts->operands) all_to_all->operands.push_back({operand});
  for (char* result : parts->results) all_to_all->results.push_back({result});
  all_to_all->bytes = {parts->bytes[0]};
  return Status();
}

const CpuHandlerRegistration cpu_all_to_all(MakeCpuHandler<CollectiveOp::kAllToAll, AllToAllArguments, Read>());

}  // namespace
}  // namespace xla_shmem
