#include "xla_patch/thunks/cpu/all_reduce.h"

#include <algorithm>
#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {

namespace {

size_t PaddedBytes(const std::vector<size_t>& bytes) {
  size_t total = 0;
  for (size_t size : bytes) total += (size + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
  return total;
}

}  // namespace

size_t OneShotLimitBytes(size_t group_size) {
  constexpr size_t kPairLimit = 64 << 10;
  return kPairLimit / std::max<size_t>(group_size - 1, 1);
}

AllReduceOperation::AllReduceOperation(const PeContext* context, AllReduceArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kAllReduce, arguments.key, std::move(arguments.name),
                          arguments.group.size()) {
  const auto& results = arguments.results;
  const bool in_place =
      CopyOverlappingOperands(results, arguments.bytes, results, arguments.bytes, &arguments.operands, &copies_);
  if (arguments.group.size() == 1) {
    for (size_t i = 0; i < results.size(); ++i) CopyLocally(arguments.operands[i], results[i], arguments.bytes[i]);
  } else if (PaddedBytes(arguments.bytes) <= OneShotLimitBytes(arguments.group.size())) {
    OneShot(arguments, in_place);
  } else {
    TwoShot(arguments);
  }
}

void AllReduceOperation::OneShot(const AllReduceArguments& arguments, bool in_place) {
  const auto& [key, name, reduction, group, types, operands, results, bytes] = arguments;
  const size_t me = IndexIn(group);
  for (size_t step = 1; step < group.size(); ++step) {
    Send(group[(me + step) % group.size()], key, PartsOf(operands, bytes, 0));
  }
  ReduceFrom(group, key, Reducer(reduction, types, me, PartsOf(operands, bytes, 0), PartsOf(results, bytes, 0)),
             in_place);
}

void AllReduceOperation::TwoShot(const AllReduceArguments& arguments) {
  const auto& [key, name, reduction, group, types, operands, results, bytes] = arguments;
  const int members = static_cast<int>(group.size());
  const size_t me = IndexIn(group);
  const std::vector<ByteRange> mine = PartOfBuffers(bytes, static_cast<int>(me), members);
  for (int step = 1; step < members; ++step) {
    const size_t peer = (me + step) % members;
    const std::vector<ByteRange> part = PartOfBuffers(bytes, static_cast<int>(peer), members);
    Send(group[peer], key, RangesOf(operands, part));
    // In place this overwrites the operands that the peer has already reduced.
    Receive(group[peer], SecondMessage(key), RangesOf(results, part));
  }
  for (int step = 1; step < members; ++step) {
    Send(group[(me + step) % members], SecondMessage(key), RangesOf(results, mine), Source::kReduced);
  }
  std::vector<ElementType> types_of_mine;
  types_of_mine.reserve(mine.size());
  for (const ByteRange& range : mine) types_of_mine.push_back(types[range.buffer]);
  ReduceFrom(group, key,
             Reducer(reduction, std::move(types_of_mine), me, RangesOf(operands, mine), RangesOf(results, mine)),
             /*overwrites_sends=*/false);
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, AllReduceArguments arguments) {
  if (!IsInProcess(*context, arguments.group)) {
    return std::make_unique<AllReduceOperation>(context, std::move(arguments));
  }
  auto& [key, name, reduction, group, types, operands, results, bytes] = arguments;
  OperandCopies copies;
  CopyOverlappingOperands(results, bytes, results, bytes, &operands, &copies);
  auto plan = [reduction = reduction, types = types, bytes = bytes](const std::vector<MemberBuffers>& members) {
    InProcessPlan plan;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::vector<const char*> terms;
      std::vector<char*> sums;
      for (const MemberBuffers& member : members) {
        terms.push_back(member.operands[i]);
        sums.push_back(member.results[i]);
      }
      plan.Reduce(types[i], reduction, terms, sums, bytes[i]);
    }
    return plan;
  };
  std::vector<int> members = arguments.group;
  return MakeInProcess(context, CollectiveOp::kAllReduce, std::move(arguments), std::move(members), std::move(copies),
                       std::move(plan));
}

}  // namespace xla_shmem
