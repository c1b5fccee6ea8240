#include "xla_patch/thunks/cpu/all_to_all.h"

#include <utility>

#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {

AllToAllOperation::AllToAllOperation(const PeContext* context, AllToAllArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kAllToAll, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& [key, name, group, operands_of, results_of, bytes_of] = arguments;
  const auto& bytes = bytes_of;  // C++17 captures no structured binding
  const size_t me = IndexIn(group), buffers = bytes.size();
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> sizes;
  for (size_t member = 0; member < group.size(); ++member) {
    operands.insert(operands.end(), operands_of[member].begin(), operands_of[member].end());
    results.insert(results.end(), results_of[member].begin(), results_of[member].end());
    sizes.insert(sizes.end(), bytes.begin(), bytes.end());
  }
  const bool in_place = CopyOverlappingOperands(results, sizes, results, sizes, &operands, &copies_);
  auto with = [&](const auto& pointers, size_t member) {
    Spans spans(buffers);
    for (size_t i = 0; i < buffers; ++i) spans.Add(pointers[member * buffers + i], bytes[i]);
    return spans;
  };
  // In place, the message to a member and the message from it have the same memory.
  for (size_t step = 1; step < group.size(); ++step) {
    const size_t peer = (me + step) % group.size();
    Send(group[peer], key, with(operands, peer), Source::kOperands,
         /*overwritten=*/in_place);
    Receive(group[peer], key, with(results, peer), in_place ? static_cast<int>(step) - 1 : -1);
  }
  for (size_t i = me * buffers; i < (me + 1) * buffers; ++i) CopyLocally(operands[i], results[i], sizes[i]);
}

}  // namespace xla_shmem
