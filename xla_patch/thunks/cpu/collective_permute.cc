#include "xla_patch/thunks/cpu/collective_permute.h"

#include <algorithm>
#include <utility>

#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/operand_aliasing.h"

namespace xla_shmem {
namespace {

// The pairs that share PEs with `pe`, directly or through other pairs, in the order of `pairs`; {} if they have PEs of
// another process.
std::vector<int> PairsWithinProcess(const PeContext& context, const std::vector<int>& pairs) {
  if (context.meetings == nullptr) return {};
  std::vector<int> connected = {context.pe};  // PEs of this process, so few
  const auto is_connected = [&](int pe) {
    return std::find(connected.begin(), connected.end(), pe) != connected.end();
  };
  for (size_t before = 0; before != connected.size();) {
    before = connected.size();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const bool has_source = is_connected(pairs[i]);
      if (has_source == is_connected(pairs[i + 1])) continue;
      const int other = has_source ? pairs[i + 1] : pairs[i];
      if (!context.heap->IsLocal(other)) return {};
      connected.push_back(other);
    }
  }
  std::vector<int> found;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (is_connected(pairs[i])) found.insert(found.end(), {pairs[i], pairs[i + 1]});
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
    const auto index_of = [&](int pe) {
      return static_cast<size_t>(std::lower_bound(group.begin(), group.end(), pe) - group.begin());
    };
    InProcessPlan plan;
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::vector<InProcessPlan::Move> moves;
      moves.reserve(members.size());
      for (const MemberBuffers& member : members) moves.push_back({nullptr, member.results[i]});
      for (size_t pair = 0; pair + 1 < pairs.size(); pair += 2) {
        moves[index_of(pairs[pair + 1])].from = members[index_of(pairs[pair])].operands[i];
      }
      plan.Copy(moves, bytes[i]);
    }
    return plan;
  };
  return MakeInProcess(context, CollectiveOp::kCollectivePermute, std::move(arguments), std::move(group),
                       std::move(copies), std::move(plan));
}

}  // namespace xla_shmem
