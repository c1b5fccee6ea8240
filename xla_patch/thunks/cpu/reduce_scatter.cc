#include "xla_patch/thunks/cpu/reduce_scatter.h"

#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {
namespace {

OperandCopies CopyOverlapping(ReduceScatterArguments* arguments) {
  std::vector<size_t> operand_bytes;
  operand_bytes.reserve(arguments->bytes.size());
  for (size_t size : arguments->bytes) operand_bytes.push_back(arguments->group.size() * size);
  const std::vector<char*> not_in_place(arguments->results.size(), nullptr);
  OperandCopies copies;
  CopyOverlappingOperands(arguments->results, arguments->bytes, not_in_place, operand_bytes, &arguments->operands,
                          &copies);
  return copies;
}

}  // namespace

ReduceScatterOperation::ReduceScatterOperation(const PeContext* context, ReduceScatterArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kReduceScatter, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& [key, name, reduction, group, types, operands, results, bytes] = arguments;
  const size_t me = IndexIn(group);
  copies_ = CopyOverlapping(&arguments);
  if (group.size() == 1) {
    for (size_t i = 0; i < results.size(); ++i) CopyLocally(operands[i], results[i], bytes[i]);
    return;
  }
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t to = (me + step) % group.size();
    Send(group[to], key, PartsOf(operands, bytes, to));
  }
  ReduceFrom(group, key, Reducer(reduction, types, me, PartsOf(operands, bytes, me), PartsOf(results, bytes, 0)),
             /*overwrites_sends=*/false);
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, ReduceScatterArguments arguments) {
  if (!IsInProcess(*context, arguments.group)) {
    return std::make_unique<ReduceScatterOperation>(context, std::move(arguments));
  }
  OperandCopies copies = CopyOverlapping(&arguments);
  auto plan = [reduction = arguments.reduction, types = arguments.types,
               bytes = arguments.bytes](const std::vector<MemberBuffers>& members) {
    InProcessPlan plan;
    std::vector<const char*> terms;
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (size_t part = 0; part < members.size(); ++part) {
        terms.clear();
        for (const MemberBuffers& member : members) terms.push_back(member.operands[i] + part * bytes[i]);
        plan.Reduce(types[i], reduction, terms, {members[part].results[i]}, bytes[i]);
      }
    }
    return plan;
  };
  std::vector<int> members = arguments.group;
  return MakeInProcess(context, CollectiveOp::kReduceScatter, std::move(arguments), std::move(members),
                       std::move(copies), std::move(plan));
}

}  // namespace xla_shmem
