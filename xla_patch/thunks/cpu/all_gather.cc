#include "xla_patch/thunks/cpu/all_gather.h"

#include <utility>

#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {

AllGatherOperation::AllGatherOperation(const PeContext* context, AllGatherArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kAllGather, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& [key, name, group, operands, results, bytes] = arguments;
  const size_t me = IndexIn(group);
  std::vector<size_t> result_bytes;
  std::vector<char*> own_parts;
  for (size_t i = 0; i < results.size(); ++i) {
    result_bytes.push_back(group.size() * bytes[i]);
    own_parts.push_back(results[i] + me * bytes[i]);
  }
  CopyOverlappingOperands(results, result_bytes, own_parts, bytes, &arguments.operands, &copies_);
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t to = (me + step) % group.size(), from = (me + group.size() - step) % group.size();
    Send(group[to], key, PartsOf(operands, bytes, 0));
    Receive(group[from], key, PartsOf(results, bytes, from));
  }
  for (size_t i = 0; i < results.size(); ++i) CopyLocally(operands[i], own_parts[i], bytes[i]);
}

}  // namespace xla_shmem
