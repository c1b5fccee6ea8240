#include "tests/thunks/cpu/storm.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/shm/gate_operation.h"
#include "tests/thunks/cpu/group_transfers.h"
#include "tests/thunks/cpu/traffic.h"

namespace xla_shmem::testing {
namespace {

using Random = std::mt19937_64;

// Most sizes are small, some are large, some are zero.
size_t RandomBytes(Random& random, size_t largest) {
  size_t octaves = 1;
  while ((size_t{1} << octaves) < largest) ++octaves;
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

Reduction RandomReduction(Random& random, const std::vector<int>& group, size_t operands, size_t largest) {
  Reduction reduction;
  reduction.group = group;
  reduction.kind = kReductionKinds[random() % std::size(kReductionKinds)];
  while (reduction.types.size() < operands) {
    const auto type = static_cast<ElementType>(1 + random() % static_cast<int>(ElementType::kF8E3M4));
    if (!Supports(type, reduction.kind)) continue;
    reduction.types.push_back(type);
    reduction.elements.push_back(RandomBytes(random, largest) / ElementBytes(type));
  }
  return reduction;
}

// The part of `pe` in one operation. All PEs draw the same random numbers.
struct Part {
  std::unique_ptr<Transfer> transfer;
  Outcome outcome;
};

std::unique_ptr<Transfer> Draw(Random& random, MessageKey key, int pe, int n_pes, size_t largest) {
  const size_t operands = 1 + (random() % 4 == 0 ? random() % 5 : 0);
  const auto placement = static_cast<Placement>(random() % 4);
  const uint64_t choice = random() % 8;
  if (choice < 2) {
    const std::vector<int> edges = RandomEdges(random, n_pes);
    std::vector<size_t> bytes(operands);
    for (size_t& size : bytes) size = RandomBytes(random, largest);
    return std::make_unique<PermuteTransfer>(key, pe, edges, bytes, placement);
  }
  std::vector<int> group;
  for (const auto& members : RandomGroups(random, n_pes)) {
    if (std::find(members.begin(), members.end(), pe) != members.end()) group = members;
  }
  // Draws for every group in turn, because the sizes must not depend on the PE.
  Random sizes(random());
  if (choice < 4) {
    return std::make_unique<AllReduceTransfer>(key, pe, RandomReduction(sizes, group, operands, largest), placement);
  }
  if (choice == 4) {
    return std::make_unique<ReduceScatterTransfer>(key, pe, RandomReduction(sizes, group, operands, largest / n_pes),
                                                   placement);
  }
  std::vector<size_t> bytes(operands);
  for (size_t& size : bytes) size = RandomBytes(sizes, std::max<size_t>(largest / n_pes, 2));
  if (choice == 5) return std::make_unique<AllGatherTransfer>(key, pe, group, bytes, placement);
  if (choice == 6) return std::make_unique<AllToAllTransfer>(key, pe, group, bytes, sizes() % 2 == 0, placement);
  return std::make_unique<BroadcastTransfer>(key, pe, sizes() % 4 == 0 ? std::vector<int>() : group, bytes, placement);
}

}  // namespace

std::string RunStorm(Job& job, int pe, const StormPlan& plan) {
  Random shared(plan.seed), own(plan.seed * 1000 + pe);
  for (int round = 0; round < plan.rounds; ++round) {
    std::vector<std::unique_ptr<Part>> parts;
    for (int i = 0; i < plan.operations; ++i) {
      const MessageKey key{(plan.seed << 20) + i, static_cast<uint64_t>(round)};
      parts.push_back(std::make_unique<Part>());
      parts.back()->transfer = Draw(shared, key, pe, job.n_pes(), plan.largest);
    }
    std::vector<int> order(parts.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), own);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < plan.threads; ++thread) {
      threads.emplace_back([&, thread, seed = own()] {
        Random random(seed);
        for (size_t i = thread; i < order.size(); i += plan.threads) {
          if (random() % 8 == 0) usleep(random() % 200);
          Part* part = parts[order[i]].get();
          job.Start(part->transfer->Begin(job.context(pe)),
                    [part](const Status& status) { part->outcome.Set(status.message()); });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Waits for all operations before it frees any buffer.
    std::string trouble;
    for (const auto& part : parts) {
      const std::string error = part->outcome.Get();
      if (trouble.empty()) trouble = error.empty() ? part->transfer->Verdict() : error;
    }
    if (!trouble.empty()) return trouble;
  }
  return "";
}

size_t ReserveFor(const StormPlan& plan, int n_pes) {
  return static_cast<size_t>(2 * plan.operations) * n_pes * (8 << 10);
}

}  // namespace xla_shmem::testing
