#include "xla_patch/thunks/cpu/all_gather.h"

#include <algorithm>
#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {
namespace {

// Where the operands of member `me` belong in its results.
std::vector<char*> OwnParts(const AllGatherArguments& arguments, size_t me) {
  std::vector<char*> parts;
  parts.reserve(arguments.results.size());
  for (size_t i = 0; i < arguments.results.size(); ++i) parts.push_back(arguments.results[i] + me * arguments.bytes[i]);
  return parts;
}

OperandCopies CopyOverlapping(AllGatherArguments* arguments, size_t me) {
  std::vector<size_t> result_bytes;
  result_bytes.reserve(arguments->bytes.size());
  for (size_t size : arguments->bytes) result_bytes.push_back(arguments->group.size() * size);
  OperandCopies copies;
  CopyOverlappingOperands(arguments->results, result_bytes, OwnParts(*arguments, me), arguments->bytes,
                          &arguments->operands, &copies);
  return copies;
}

}  // namespace

AllGatherOperation::AllGatherOperation(const PeContext* context, AllGatherArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kAllGather, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& [key, name, group, operands, results, bytes] = arguments;
  const size_t me = IndexIn(group);
  const std::vector<char*> own_parts = OwnParts(arguments, me);
  copies_ = CopyOverlapping(&arguments, me);
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t to = (me + step) % group.size(), from = (me + group.size() - step) % group.size();
    Send(group[to], key, PartsOf(operands, bytes, 0));
    Receive(group[from], key, PartsOf(results, bytes, from));
  }
  for (size_t i = 0; i < results.size(); ++i) CopyLocally(operands[i], own_parts[i], bytes[i]);
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllGatherArguments arguments) {
  if (!IsInProcess(*context, arguments.group)) {
    return std::make_unique<AllGatherOperation>(context, std::move(arguments));
  }
  const auto own = std::find(arguments.group.begin(), arguments.group.end(), context->pe) - arguments.group.begin();
  OperandCopies copies = CopyOverlapping(&arguments, static_cast<size_t>(own));
  auto plan = [bytes = arguments.bytes](const std::vector<MemberBuffers>& members) {
    InProcessPlan plan;
    std::vector<InProcessPlan::Move> moves;
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (size_t part = 0; part < members.size(); ++part) {
        moves.clear();
        for (const MemberBuffers& member : members) {
          moves.push_back({members[part].operands[i], member.results[i] + part * bytes[i]});
        }
        plan.Copy(moves, bytes[i]);
      }
    }
    return plan;
  };
  std::vector<int> members = arguments.group;
  return MakeInProcess(context, CollectiveOp::kAllGather, std::move(arguments), std::move(members), std::move(copies),
                       std::move(plan));
}

}  // namespace xla_shmem
