#include "xla_patch/thunks/cpu/collective_permute.h"

#include <algorithm>
#include <set>
#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {
namespace {

// The pairs that share PEs with `pe`, directly or through other pairs, in the order of `pairs`; {} if they have PEs of
// another process.
std::vector<int> PairsWithinProcess(const PeContext& context, const std::vector<int>& pairs) {
  std::set<int> connected = {context.pe};
  for (size_t before = 0; before != connected.size();) {
    before = connected.size();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      if (connected.count(pairs[i]) == connected.count(pairs[i + 1])) continue;
      if (!IsInProcess(context, {pairs[i], pairs[i + 1]})) return {};
      connected.insert({pairs[i], pairs[i + 1]});
    }
  }
  std::vector<int> found;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (connected.count(pairs[i]) != 0) found.insert(found.end(), {pairs[i], pairs[i + 1]});
  }
  return found;
}

}  // namespace

PermuteOperation::PermuteOperation(const PeContext* context, PermuteArguments arguments)
    : CollectiveOperation(context, CollectiveOp::kCollectivePermute, arguments.key, std::move(arguments.name), 0) {
  const auto& [key, name, source, target, operands, results, bytes, pairs] = arguments;
  const bool in_place = CopyOverlappingOperands(results, bytes, results, bytes, &arguments.operands, &copies_);
  const bool sends = target >= 0 && target != context->pe;
  if (sends) Send(target, key, PartsOf(operands, bytes, 0), Source::kOperands, /*overwritten=*/in_place);
  if (source >= 0 && source != context->pe) {
    Receive(source, key, PartsOf(results, bytes, 0), sends && in_place ? 0 : -1);
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    CopyLocally(source == context->pe ? operands[i] : nullptr, results[i], bytes[i], in_place);
  }
}

std::unique_ptr<Operation> MakeOperation(const PeContext* context, PermuteArguments arguments) {
  // The PEs that meet. A branch may leave the others out.
  const std::vector<int> pairs_of_pe = PairsWithinProcess(*context, arguments.pairs);
  std::vector<int> group(pairs_of_pe);
  std::sort(group.begin(), group.end());
  group.erase(std::unique(group.begin(), group.end()), group.end());
  if (group.size() < 2) {
    return std::make_unique<PermuteOperation>(context, std::move(arguments));
  }
  auto& [key, name, source, target, operands, results, bytes, pairs] = arguments;
  OperandCopies copies;
  CopyOverlappingOperands(results, bytes, results, bytes, &operands, &copies);
  auto plan = [group, pairs = pairs_of_pe, bytes = bytes](const std::vector<MemberBuffers>& members) {
    const auto with = [&](int pe) -> const MemberBuffers& {
      return members[static_cast<size_t>(std::lower_bound(group.begin(), group.end(), pe) - group.begin())];
    };
    InProcessPlan plan;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::vector<InProcessPlan::Move> moves;
      std::set<int> without_source(group.begin(), group.end());
      for (size_t pair = 0; pair + 1 < pairs.size(); pair += 2) {
        moves.push_back({with(pairs[pair]).operands[i], with(pairs[pair + 1]).results[i]});
        without_source.erase(pairs[pair + 1]);
      }
      for (const int pe : without_source) moves.push_back({nullptr, with(pe).results[i]});
      plan.Copy(std::move(moves), bytes[i]);
    }
    return plan;
  };
  return MakeInProcess(context, CollectiveOp::kCollectivePermute, std::move(arguments), std::move(group),
                       std::move(copies), std::move(plan));
}

}  // namespace xla_shmem
