#include "xla_patch/thunks/cpu/all_to_all.h"

#include <numeric>
#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {
namespace {

// All buffers of all members, one member after the other.
struct Flat {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;
};

Flat Flatten(const AllToAllArguments& arguments) {
  Flat flat;
  for (size_t member = 0; member < arguments.group.size(); ++member) {
    const auto& operands = arguments.operands[member];
    const auto& results = arguments.results[member];
    flat.operands.insert(flat.operands.end(), operands.begin(), operands.end());
    flat.results.insert(flat.results.end(), results.begin(), results.end());
    flat.bytes.insert(flat.bytes.end(), arguments.bytes.begin(), arguments.bytes.end());
  }
  return flat;
}

}  // namespace

AllToAllOperation::AllToAllOperation(const PeContext* context, AllToAllArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kAllToAll, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& group = arguments.group;
  const auto& key = arguments.key;
  const auto& bytes = arguments.bytes;
  const size_t me = IndexIn(group), buffers = bytes.size();
  auto [operands, results, sizes] = Flatten(arguments);
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

std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllToAllArguments arguments) {
  if (!IsInProcess(*context, arguments.group)) {
    return std::make_unique<AllToAllOperation>(context, std::move(arguments));
  }
  OperandCopies copies;
  Flat flat = Flatten(arguments);
  CopyOverlappingOperands(flat.results, flat.bytes, flat.results, flat.bytes, &flat.operands, &copies);
  auto plan = [bytes = arguments.bytes](const std::vector<MemberBuffers>& members) {
    InProcessPlan plan;
    std::vector<InProcessPlan::Move> moves;
    for (size_t one = 0; one < members.size(); ++one) {
      for (size_t other = one; other < members.size(); ++other) {
        for (size_t i = 0; i < bytes.size(); ++i) {
          const size_t to_one = one * bytes.size() + i, to_other = other * bytes.size() + i;
          moves = {{members[one].operands[to_other], members[other].results[to_one]}};
          if (one != other) moves.push_back({members[other].operands[to_one], members[one].results[to_other]});
          plan.Copy(moves, bytes[i]);
        }
      }
    }
    return plan;
  };
  MemberBuffers buffers{std::move(flat.operands), std::move(flat.results)};
  return std::make_unique<InProcessCollective>(
      context, CollectiveOp::kAllToAll, arguments.key, std::move(arguments.name), std::move(arguments.group),
      std::move(buffers), std::move(copies), std::accumulate(flat.bytes.begin(), flat.bytes.end(), size_t{0}),
      std::move(plan));
}

}  // namespace xla_shmem
