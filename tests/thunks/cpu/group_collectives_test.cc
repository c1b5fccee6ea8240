// All-gather, reduce-scatter, all-to-all and broadcast, each at the sizes where the protocol of the messages changes.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/group_transfers.h"
#include "tests/thunks/cpu/job.h"
#include "xla_patch/thunks/cpu/collectives.h"

namespace xla_shmem::testing {
namespace {

using Groups = std::vector<std::vector<int>>;

// Empty, tiny, the largest eager message and more, one slot, several slots; none is a multiple of an element.
// Under ThreadSanitizer, which takes long for fresh memory, two slots.
constexpr size_t kWholeSlots = kUnderThreadSanitizer ? 1 : 5;
constexpr size_t kSizes[] = {0, 1, 8192, 8193, 20000, kWholeSlots * kSlotBytes + 3};
constexpr Placement kPlacements[] = {Placement::kApart, Placement::kInPlace, Placement::kShifted, Placement::kRotated};

std::vector<int> World(int n) {
  std::vector<int> group(n);
  std::iota(group.begin(), group.end(), 0);
  return group;
}

MessageKey NextKey() {
  static uint64_t operation = 0;
  return {++operation, 1};
}

// Runs one operation in each group at once; `make(key, pe, group)` returns the transfer of a PE.
template <typename Make>
void Check(Job& job, const Groups& groups, Make make) {
  const MessageKey key = NextKey();
  job.RunPes([&](int pe) {
    for (const std::vector<int>& group : groups) {
      if (std::find(group.begin(), group.end(), pe) == group.end()) continue;
      const std::unique_ptr<Transfer> transfer = make(key, pe, group);
      CHECK(job.Finish(transfer->Begin(job.context(pe))) == "");
      CHECK(transfer->Verdict() == "");
    }
  });
}

// Jobs with cross-memory reads, jobs with messages through slots and streaming stores for local copies, and jobs within
// a process.
template <typename Body>
void InAllJobs(int n_pes, Body body) {
  for (const int kind : {0, 1, 2}) {
    JobOptions options;
    options.n_pes = n_pes;
    options.single_copy = kind == 0 ? shm::SingleCopy::kAlways : shm::SingleCopy::kOff;
    if (kind == 1) options.llc_share = 1;
    options.in_process = kind == 2;
    Job job(options);
    const size_t before = job.FreeBlocks(0, options.arena_bytes);
    body(job);
    CHECK(job.FreeBlocks(0, options.arena_bytes) == before);
  }
}

const Groups kWhole = {{0, 1, 2}};
const Groups kUneven = {{3, 0, 1}, {2}};

TEST_CASE("An all-gather puts every member's operand in its position, in groups of any order, in place or not") {
  InAllJobs(4, [](Job& job) {
    for (const Groups& groups : {Groups{World(4)}, kWhole, kUneven}) {
      for (size_t size : kSizes) {
        for (Placement placement : kPlacements) {
          Check(job, groups, [&](MessageKey key, int pe, const std::vector<int>& group) {
            return MakeMovingTransfer(CollectiveOp::kAllGather, key, pe, group, std::vector<size_t>{size}, placement);
          });
        }
      }
    }
  });
}

TEST_CASE("A reduce-scatter gives every member the bits of Reduce in group order, and may write into its operand") {
  InAllJobs(4, [](Job& job) {
    for (const Groups& groups : {Groups{World(4)}, kUneven}) {
      for (size_t size : kSizes) {
        for (Placement placement : kPlacements) {
          Check(job, groups, [&](MessageKey key, int pe, const std::vector<int>& group) {
            const Reduction reduction{ReductionKind::kSum, group, {ElementType::kF32}, {size / 4}};
            return std::make_unique<ReduceScatterTransfer>(key, pe, reduction, placement);
          });
        }
      }
    }
  });
}

TEST_CASE("An all-to-all transposes, as array and as tuple, in place or not") {
  InAllJobs(4, [](Job& job) {
    for (const Groups& groups : {Groups{World(4)}, kUneven}) {
      for (size_t size : kSizes) {
        for (Placement placement : kPlacements) {
          for (bool array_form : {true, false}) {
            Check(job, groups, [&](MessageKey key, int pe, const std::vector<int>& group) {
              return MakeMovingTransfer(CollectiveOp::kAllToAll, key, pe, group, std::vector<size_t>{size}, placement,
                                        array_form);
            });
          }
        }
      }
    }
  });
}

TEST_CASE("A broadcast gives all members the operands of the first") {
  InAllJobs(4, [](Job& job) {
    for (const Groups& groups : {Groups{World(4)}, kUneven}) {
      for (size_t size : kSizes) {
        for (Placement placement : kPlacements) {
          Check(job, groups, [&](MessageKey key, int pe, const std::vector<int>& group) {
            return MakeMovingTransfer(CollectiveOp::kCollectiveBroadcast, key, pe, group, std::vector<size_t>{size},
                                      placement);
          });
        }
      }
    }
  });
}

// What `op` gives PE `pe` of two if the memory of its operand, which begins at its result or at its part of it, changes
// between the creation of the operation and its first poll: the bytes that came from PE 0 and from PE 1.
std::string ResultOfChangedOperand(Job& job, CollectiveOp op, MessageKey key, int pe) {
  constexpr size_t kBytes = 100;
  std::vector<char> memory(2 * kBytes, 'x');
  CollectiveArguments arguments;
  arguments.op = op;
  arguments.key = key;
  arguments.name = "in_place";
  arguments.bytes = {kBytes};
  arguments.types = {ElementType::kU8};
  arguments.results = {memory.data()};
  char* operand = memory.data();
  if (op == CollectiveOp::kAllGather) operand += pe * kBytes;
  arguments.operands = {operand};
  if (op == CollectiveOp::kAllToAll) {
    arguments.results.push_back(memory.data() + kBytes);
    arguments.operands.push_back(memory.data() + kBytes);
  }
  if (UsesPairs(op)) {
    arguments.source = arguments.target = 1 - pe;
  } else {
    arguments.group = World(2);
  }
  const size_t operand_bytes = arguments.operands.size() * kBytes;
  std::unique_ptr<Operation> operation = MakeMessageOperation(&job.context(pe), std::move(arguments));
  std::fill_n(operand, operand_bytes, static_cast<char>('0' + pe));
  CHECK(job.Finish(std::move(operation)) == "");
  return {memory[0], memory[kBytes]};
}

TEST_CASE("An operand in place of its result, or in an all-gather in its part of it, is not copied") {
  Job job({2});
  const auto result = [&](CollectiveOp op) {
    const MessageKey key = NextKey();
    std::vector<std::string> of_pe(2);
    job.RunPes([&](int pe) { of_pe[pe] = ResultOfChangedOperand(job, op, key, pe); });
    return of_pe[0] + " " + of_pe[1];
  };
  CHECK(result(CollectiveOp::kAllGather) == "01 01");
  CHECK(result(CollectiveOp::kAllToAll) == "01 01");
  CHECK(result(CollectiveOp::kCollectivePermute) == "1x 0x");
  CHECK(result(CollectiveOp::kCollectiveBroadcast) == "0x 0x");
  CHECK(result(CollectiveOp::kAllReduce) == "ax ax");  // '0' + '1'
}

TEST_CASE("A PE in no group of a broadcast gets zeros, also over its own operand") {
  Job job({1});
  for (Placement placement : kPlacements) {
    const std::unique_ptr<Transfer> transfer =
        MakeMovingTransfer(CollectiveOp::kCollectiveBroadcast, NextKey(), 0, {}, {100, 0, 70000}, placement);
    CHECK(job.Finish(transfer->Begin(job.context(0))) == "");
    CHECK(transfer->Verdict() == "");
  }
}

TEST_CASE("Combined buffers of mixed sizes travel as one message in every collective") {
  const std::vector<size_t> sizes = {3, 0, 70000, 64, 129, 8192};
  InAllJobs(3, [&](Job& job) {
    for (Placement placement : kPlacements) {
      Check(job, kWhole, [&](MessageKey key, int pe, const std::vector<int>& group) {
        return MakeMovingTransfer(CollectiveOp::kAllGather, key, pe, group, sizes, placement);
      });
      Check(job, kWhole, [&](MessageKey key, int pe, const std::vector<int>& group) {
        return MakeMovingTransfer(CollectiveOp::kAllToAll, key, pe, group, sizes, placement, pe >= 0);
      });
      Check(job, kWhole, [&](MessageKey key, int pe, const std::vector<int>& group) {
        return MakeMovingTransfer(CollectiveOp::kCollectiveBroadcast, key, pe, group, sizes, placement);
      });
      Check(job, kWhole, [&](MessageKey key, int pe, const std::vector<int>& group) {
        const Reduction reduction{ReductionKind::kMax,
                                  group,
                                  {ElementType::kF64, ElementType::kPred, ElementType::kBf16, ElementType::kS8},
                                  {9000, 3, 0, 129}};
        return std::make_unique<ReduceScatterTransfer>(key, pe, reduction, placement);
      });
    }
  });
}

TEST_CASE("The error of every collective names a member that has not arrived") {
  for (size_t size : {100, 100000}) {
    JobOptions options;
    options.n_pes = 3;
    options.deadline = std::chrono::milliseconds(100);
    options.single_copy = shm::SingleCopy::kOff;
    const std::vector<int> group = {2, 0};
    std::vector<std::unique_ptr<Transfer>> transfers;
    transfers.push_back(MakeMovingTransfer(CollectiveOp::kAllGather, NextKey(), 0, group, std::vector<size_t>{size},
                                           Placement::kApart));
    transfers.push_back(MakeMovingTransfer(CollectiveOp::kAllToAll, NextKey(), 0, group, std::vector<size_t>{size},
                                           Placement::kInPlace, true));
    transfers.push_back(MakeMovingTransfer(CollectiveOp::kCollectiveBroadcast, NextKey(), 0, group,
                                           std::vector<size_t>{size}, Placement::kApart));
    transfers.push_back(std::make_unique<ReduceScatterTransfer>(
        NextKey(), 0, Reduction{ReductionKind::kSum, group, {ElementType::kS8}, {size}}, Placement::kApart));
    for (const auto& transfer : transfers) {
      Job job(options);
      const std::string error = job.Finish(transfer->Begin(job.context(0)));
      INFO(error);
      CHECK(error.find("on PE 0, run 1, execution 2 in it; not arrived at this operation: PE 2; gave up after") !=
            std::string::npos);
    }
  }
}

TEST_CASE("The same operation runs again thousands of times, with PEs that run ahead of each other") {
  Job job({3});
  RunPes(3, [&](int pe) {
    for (uint64_t execution = 1; execution <= 2000; ++execution) {
      const size_t size = execution % 40 == 0 ? 30000 : 24;
      const std::unique_ptr<Transfer> transfer = MakeMovingTransfer(CollectiveOp::kAllGather, {5000000, execution}, pe,
                                                                    {0, 1, 2}, {size}, Placement::kInPlace);
      const std::string error = job.Finish(transfer->Begin(job.context(pe)));
      if (error != "") FAIL(error);
      if (transfer->Verdict() != "") FAIL("execution " << execution << ": " << transfer->Verdict());
    }
  });
}

}  // namespace
}  // namespace xla_shmem::testing
