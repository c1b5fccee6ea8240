#include "xla_patch/thunks/cpu/collective_broadcast.h"

#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
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

std::unique_ptr<Operation> MakeOperation(const PeContext* context, CollectiveBroadcastArguments arguments) {
  if (!IsInProcess(*context, arguments.group)) {
    return std::make_unique<CollectiveBroadcastOperation>(context, std::move(arguments));
  }
  auto& [key, name, group, operands, results, bytes] = arguments;
  OperandCopies copies;
  if (group[0] == context->pe) CopyOverlappingOperands(results, bytes, results, bytes, &operands, &copies);
  auto plan = [bytes = bytes](const std::vector<MemberBuffers>& members) {
    InProcessPlan plan;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::vector<InProcessPlan::Move> moves;
      moves.reserve(members.size());
      for (const MemberBuffers& member : members) moves.push_back({members[0].operands[i], member.results[i]});
      plan.Copy(moves, bytes[i]);
    }
    return plan;
  };
  std::vector<int> members = arguments.group;
  return MakeInProcess(context, CollectiveOp::kCollectiveBroadcast, std::move(arguments), std::move(members),
                       std::move(copies), std::move(plan));
}

}  // namespace xla_shmem
