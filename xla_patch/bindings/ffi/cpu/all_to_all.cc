#include "xla_patch/thunks/cpu/all_to_all.h"

#include "xla_patch/bindings/ffi/cpu/handler.h"

namespace xla_shmem {
namespace {

// On either side one array that is cut among the members, or one array for each of them.
bool Read(const CallFrame& frame, AllToAllArguments* all_to_all, std::string* error) {
  if (!TakeGroup(frame, &all_to_all->group, error)) return false;
  Buffers parts;
  if (!ReadParts(frame.operands, frame.results, all_to_all->group.size(), &parts, error)) return false;
  for (const char* operand : parts.operands) all_to_all->operands.push_back({operand});
  for (char* result : parts.results) all_to_all->results.push_back({result});
  all_to_all->bytes = {parts.bytes[0]};
  return true;
}

const CpuHandlerRegistration registration(
    MakeCpuHandler<CollectiveOp::kAllToAll, AllToAllOperation, AllToAllArguments, Read>());

}  // namespace
}  // namespace xla_shmem
