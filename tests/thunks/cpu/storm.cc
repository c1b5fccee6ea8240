#include "tests/thunks/cpu/storm.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/shm/gate_operation.h"
#include "tests/thunks/cpu/random_transfer.h"

namespace xla_shmem::testing {
namespace {

using Random = std::mt19937_64;

// The part of `pe` in one operation. All PEs draw the same random numbers.
struct Part {
  std::unique_ptr<Transfer> transfer;
  Outcome outcome;
};

}  // namespace

std::string RunStorm(Job& job, int pe, const StormPlan& plan) {
  Random shared(plan.seed), own(plan.seed * 1000 + pe);
  for (int round = 0; round < plan.rounds; ++round) {
    std::vector<std::unique_ptr<Part>> parts;
    for (int i = 0; i < plan.operations; ++i) {
      const MessageKey key{(plan.seed << 20) + i, static_cast<uint64_t>(round)};
      parts.push_back(std::make_unique<Part>());
      parts.back()->transfer = DrawTransfer(shared, key, pe, job.n_pes(), {plan.largest});
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
