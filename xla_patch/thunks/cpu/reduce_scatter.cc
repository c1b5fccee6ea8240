#include "xla_patch/thunks/cpu/reduce_scatter.h"

#include <utility>

#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {

ReduceScatterOperation::ReduceScatterOperation(const PeContext* context, ReduceScatterArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kReduceScatter, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& [key, name, reduction, group, types, operands, results, bytes] = arguments;
  const size_t me = IndexIn(group);
  std::vector<size_t> operand_bytes;
  operand_bytes.reserve(bytes.size());
  for (size_t size : bytes) operand_bytes.push_back(group.size() * size);
  const std::vector<char*> not_in_place(results.size(), nullptr);
  CopyOverlappingOperands(results, bytes, not_in_place, operand_bytes, &arguments.operands, &copies_);
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

}  // namespace xla_shmem
