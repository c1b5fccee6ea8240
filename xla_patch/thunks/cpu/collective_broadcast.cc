#include "xla_patch/thunks/cpu/collective_broadcast.h"

#include <utility>

#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {

CollectiveBroadcastOperation::CollectiveBroadcastOperation(const PeContext* context,
                                                           CollectiveBroadcastArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kCollectiveBroadcast, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& [key, name, group, operands, results, bytes] = arguments;
  if (group.empty()) {
    for (size_t i = 0; i < results.size(); ++i) CopyLocally(nullptr, results[i], bytes[i]);
  } else if (group[0] != context->pe) {
    Receive(group[0], key, PartsOf(results, bytes, 0));
  } else {
    CopyOverlappingOperands(results, bytes, results, bytes, &arguments.operands, &copies_);
    for (size_t member = 1; member < group.size(); ++member) Send(group[member], key, PartsOf(operands, bytes, 0));
    for (size_t i = 0; i < results.size(); ++i) CopyLocally(operands[i], results[i], bytes[i]);
  }
}

}  // namespace xla_shmem
