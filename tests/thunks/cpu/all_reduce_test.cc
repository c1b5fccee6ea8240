#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/traffic.h"
#include "xla_patch/thunks/cpu/collectives.h"

namespace xla_shmem::testing {
namespace {

std::vector<int> World(int n) {
  std::vector<int> group(n);
  std::iota(group.begin(), group.end(), 0);
  return group;
}

uint64_t NextOperation() {
  static uint64_t operation = 0;
  return ++operation;
}

// Runs one all-reduce in each group at once, and checks for the bits of Reduce in group order on every member.
void CheckAllReduce(Job& job, const std::vector<std::vector<int>>& groups, const Reduction& reduction,
                    Placement placement) {
  const MessageKey key{NextOperation(), 1};
  job.RunPes([&](int pe) {
    for (const std::vector<int>& group : groups) {
      if (std::find(group.begin(), group.end(), pe) == group.end()) continue;
      Reduction mine = reduction;
      mine.group = group;
      AllReduceTransfer transfer(key, pe, mine, placement);
      CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
      CHECK(transfer.Verdict() == "");
    }
  });
}

Reduction Of(ElementType type, size_t elements, ReductionKind kind = ReductionKind::kSum) {
  return {kind, {}, {type}, {elements}};
}

TEST_CASE("One to eight PEs get the same bits at every size around the one-shot limit and the slot size") {
  for (int n = 1; n <= 8; ++n) {
    Job job({n});
    const size_t limit = OneShotLimitBytes(n, /*have_shared_buffers=*/false) / 4;
    const size_t slot = kSlotBytes / 4;
    std::vector<size_t> sizes = {0, 1, 15, 16, 17, 1000, limit - 1, limit, limit + 1, slot * n / 2 + 1};
    if (n <= 3) sizes.insert(sizes.end(), {slot, slot * n - 1, slot * n, slot * n + 1, slot * n * 5 + 3});
    for (size_t elements : sizes) {
      CAPTURE(n);
      CAPTURE(elements);
      CheckAllReduce(job, {World(n)}, Of(ElementType::kF32, elements), Placement::kApart);
      CheckAllReduce(job, {World(n)}, Of(ElementType::kF32, elements), Placement::kInPlace);
    }
  }
}

TEST_CASE("One-shot and two-shot return every block to its pool") {
  Job job({3});
  const size_t before = job.FreeBlocks(1, 1 << 20);
  for (size_t elements : {100, 1000000}) {
    CheckAllReduce(job, {World(3)}, Of(ElementType::kF32, elements), Placement::kInPlace);
    CHECK(job.FreeBlocks(1, 1 << 20) == before);
  }
}

TEST_CASE("One-shot and two-shot support all types and kinds") {
  Job job({3});
  for (ElementType type : {ElementType::kF32, ElementType::kF64, ElementType::kF16, ElementType::kBf16,
                           ElementType::kS8, ElementType::kS16, ElementType::kS32, ElementType::kS64, ElementType::kU8,
                           ElementType::kU16, ElementType::kU32, ElementType::kU64}) {
    for (ReductionKind kind : {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin, ReductionKind::kMax}) {
      CheckAllReduce(job, {World(3)}, Of(type, 77, kind), Placement::kApart);
      CheckAllReduce(job, {World(3)}, Of(type, 40001, kind), Placement::kInPlace);
    }
  }
}

TEST_CASE("Disjoint groups reduce at the same time, each in its order") {
  Job job({6});
  for (size_t elements : {50, 100000}) {
    CheckAllReduce(job, {{5, 0, 2}, {1}, {4, 3}}, Of(ElementType::kF32, elements), Placement::kApart);
    CheckAllReduce(job, {{3, 2, 1, 0}}, Of(ElementType::kF32, elements), Placement::kInPlace);
    CheckAllReduce(job, {{1, 4}}, Of(ElementType::kF32, elements), Placement::kShifted);
  }
}

TEST_CASE("Combined buffers of mixed types, empty and tiny ones included, reduce as one message") {
  Job job({3});
  Reduction reduction;
  reduction.types = {ElementType::kF32, ElementType::kU8,  ElementType::kBf16,
                     ElementType::kF64, ElementType::kS16, ElementType::kF16};
  for (Placement placement : {Placement::kApart, Placement::kInPlace, Placement::kShifted}) {
    reduction.elements = {3, 0, 17, 1, 65, 9};
    CheckAllReduce(job, {World(3)}, reduction, placement);
    reduction.elements = {100000, 3, 0, 20001, 70001, 1};
    CheckAllReduce(job, {World(3)}, reduction, placement);
  }
  reduction.types.assign(300, ElementType::kF32);
  reduction.elements.assign(300, 5);
  CheckAllReduce(job, {World(3)}, reduction, Placement::kInPlace);
  reduction.elements.assign(300, 500);
  CheckAllReduce(job, {World(3)}, reduction, Placement::kInPlace);
}

TEST_CASE("Result i may be the buffer of operand j") {
  Job job({2});
  Reduction reduction;
  reduction.types.assign(3, ElementType::kF32);
  for (size_t elements : {10, 100000}) {
    reduction.elements.assign(3, elements);
    CheckAllReduce(job, {World(2)}, reduction, Placement::kRotated);
  }
}

TEST_CASE("x + psum(x): an operand apart from the result is unchanged afterwards") {
  Job job({2});
  for (size_t elements : {10, 300000}) {
    const MessageKey key{NextOperation(), 1};
    RunPes(2, [&](int pe) {
      Reduction reduction = Of(ElementType::kF32, elements);
      reduction.group = World(2);
      AllReduceTransfer transfer(key, pe, reduction, Placement::kApart);
      CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
      const auto before = AllReduceOperand(key, pe, 0, ElementType::kF32, elements);
      CHECK(std::equal(before.begin(), before.end(), transfer.buffers().operand(0)));
    });
  }
}

TEST_CASE("f32 sums stay within (n-1) eps times the sum of magnitudes of the exact sum") {
  constexpr int kPes = 8;
  Job job({kPes});
  for (size_t elements : {500, 50000}) {
    const MessageKey key{NextOperation(), 1};
    std::vector<std::vector<char>> inputs;
    for (int pe = 0; pe < kPes; ++pe) inputs.push_back(AllReduceOperand(key, pe, 0, ElementType::kF32, elements));
    RunPes(kPes, [&](int pe) {
      Reduction reduction = Of(ElementType::kF32, elements);
      reduction.group = World(kPes);
      AllReduceTransfer transfer(key, pe, reduction, Placement::kInPlace);
      CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
      const auto* sums = reinterpret_cast<const float*>(transfer.buffers().result(0));
      int beyond = 0;
      for (size_t i = 0; i < elements; ++i) {
        double exact = 0, magnitudes = 0;
        for (const auto& input : inputs) {
          const double value = reinterpret_cast<const float*>(input.data())[i];
          exact += value;
          magnitudes += std::fabs(value);
        }
        beyond += std::fabs(sums[i] - exact) > (kPes - 1) * static_cast<double>(FLT_EPSILON) * magnitudes;
      }
      CHECK(beyond == 0);
    });
  }
}

TEST_CASE("The same operation can run again under the next execution, thousands of times") {
  Job job({3});
  RunPes(3, [&](int pe) {
    for (uint64_t execution = 1; execution <= 2000; ++execution) {
      Reduction reduction = Of(ElementType::kF32, execution % 50 == 0 ? 30000 : 20);
      reduction.group = World(3);
      AllReduceTransfer transfer({1000000, execution}, pe, reduction, Placement::kInPlace);
      const std::string error = job.Finish(transfer.Begin(job.context(pe)));
      if (error != "") FAIL(error);
      if (transfer.Verdict() != "") FAIL("execution " << execution << ": " << transfer.Verdict());
    }
  });
}

TEST_CASE("An error names all members that have not arrived") {
  JobOptions options;
  options.n_pes = 4;
  options.deadline = std::chrono::milliseconds(200);
  Job job(options);
  Reduction reduction = Of(ElementType::kF32, 100);
  reduction.group = {2, 0, 3};
  AllReduceTransfer transfer({NextOperation(), 8}, 0, reduction, Placement::kApart);
  const std::string error = job.Finish(transfer.Begin(job.context(0)));
  CHECK(error.find("(400 bytes, 3 PEs) on PE 0, run 1, execution 9 in it; not arrived at this operation: PE 2, 3; gave "
                   "up after") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::testing
