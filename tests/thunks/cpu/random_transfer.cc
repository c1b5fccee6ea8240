#include "tests/thunks/cpu/random_transfer.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/thunks/cpu/group_transfers.h"

namespace xla_shmem::testing {
namespace {

using Random = std::mt19937_64;

size_t RandomBytes(Random& random, Sizes sizes) {
  if (sizes.smallest > 0) return sizes.smallest + random() % (sizes.largest - sizes.smallest + 1);
  size_t octaves = 1;
  while ((size_t{1} << octaves) < sizes.largest) ++octaves;
  return random() % (size_t{1} << (1 + random() % octaves));
}

std::vector<int> RandomEdges(Random& random, int n_pes) {
  std::vector<int> targets(n_pes), target_of(n_pes);
  std::iota(targets.begin(), targets.end(), 0);
  std::shuffle(targets.begin(), targets.end(), random);
  const bool open = random() % 3 == 0;
  for (int pe = 0; pe < n_pes; ++pe) target_of[pe] = open && random() % 3 == 0 ? -1 : targets[pe];
  return target_of;
}

std::vector<std::vector<int>> RandomGroups(Random& random, int n_pes) {
  std::vector<int> order(n_pes);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const int groups = 1 + static_cast<int>(random() % 2);
  std::vector<std::vector<int>> members(groups);
  for (int i = 0; i < n_pes; ++i) members[i % groups].push_back(order[i]);
  return members;
}

Reduction RandomReduction(Random& random, const std::vector<int>& group, size_t operands, Sizes sizes) {
  Reduction reduction;
  reduction.group = group;
  reduction.kind = kReductionKinds[random() % std::size(kReductionKinds)];
  while (reduction.types.size() < operands) {
    const auto type = static_cast<ElementType>(1 + random() % static_cast<int>(ElementType::kF8E3M4));
    if (!Supports(type, reduction.kind)) continue;
    reduction.types.push_back(type);
    reduction.elements.push_back(RandomBytes(random, sizes) / ElementBytes(type));
  }
  return reduction;
}

}  // namespace

std::unique_ptr<Transfer> DrawTransfer(std::mt19937_64& random, MessageKey key, int pe, int n_pes, Sizes sizes) {
  const size_t operands = 1 + (random() % 4 == 0 ? random() % 5 : 0);
  const auto placement = static_cast<Placement>(random() % 4);
  const std::vector<CollectiveOp> moving = MovingGroupOps();
  constexpr uint64_t kOthers = 5;
  const uint64_t choice = random() % (kOthers + moving.size());
  if (choice < 2) {
    const std::vector<int> edges = RandomEdges(random, n_pes);
    std::vector<size_t> bytes(operands);
    for (size_t& size : bytes) size = RandomBytes(random, sizes);
    return std::make_unique<PermuteTransfer>(key, pe, edges, bytes, placement);
  }
  std::vector<int> group;
  for (const auto& members : RandomGroups(random, n_pes)) {
    if (std::find(members.begin(), members.end(), pe) != members.end()) group = members;
  }
  // Draws for every group in turn, because the sizes must not depend on the PE.
  Random drawn(random());
  // Of one member's part, where an operand has a part for each.
  const auto pes = static_cast<size_t>(n_pes);
  const Sizes part{std::max<size_t>(sizes.largest / pes, 2), sizes.smallest / pes};
  if (choice < 4) {
    return std::make_unique<AllReduceTransfer>(key, pe, RandomReduction(drawn, group, operands, sizes), placement);
  }
  if (choice == 4) {
    return std::make_unique<ReduceScatterTransfer>(key, pe, RandomReduction(drawn, group, operands, part), placement);
  }
  std::vector<size_t> bytes(operands);
  for (size_t& size : bytes) size = RandomBytes(drawn, part);
  const CollectiveOp op = moving[choice - kOthers];
  const bool array_form = op == CollectiveOp::kAllToAll && drawn() % 2 == 0;
  if (op == CollectiveOp::kCollectiveBroadcast && drawn() % 4 == 0) group.clear();
  return MakeMovingTransfer(op, key, pe, group, bytes, placement, array_form);
}

}  // namespace xla_shmem::testing
