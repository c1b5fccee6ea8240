// Ops that the rules look at only where they are listed: what the pass reads of them and what it writes in their place.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

const std::vector<std::vector<int64_t>> kHalves = {{0, 1}, {2, 3}};

PassOptions ListingAll(Lowering lowering) {
  PassOptions options = MakeOptions(lowering);
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    options.assign.ops.push_back({info.op, std::nullopt});
  }
  return options;
}

// main() with `op`, id 3, on parameters 1 and 2, over 4 devices.
std::string ModuleWith(const Message& op, const Message& first, const Message& second = ArrayShape({8})) {
  return Module({ReductionComputation("add", 1), Computation("main", 2,
                                                             {Instruction("p0", "parameter", first, 1),
                                                              Instruction("p1", "parameter", second, 2).Int(9, 1), op},
                                                             3)},
                2)
      .str();
}

Message Shape(const std::vector<int64_t>& dims, const std::vector<int64_t>& minor_to_major, int type = kF32) {
  return Message().Int(2, type).Ints(3, dims).Sub(5, Message().Ints(1, minor_to_major));
}

Message AllGather(const Message& result, int64_t dimension, const std::vector<std::vector<int64_t>>& groups = kHalves) {
  return WithGroups(Instruction("op", "all-gather", result, 3, {1}), groups).Ints(14, {dimension});
}
Message ReduceScatter(const Message& result, int64_t dimension) {
  return WithGroups(Instruction("op", "reduce-scatter", result, 3, {1}), kHalves).Ints(14, {dimension}).Ints(38, {1});
}
// Partition ids, without use_global_device_ids, as XLA has it for these.
Message WithPartitions(Message op, const std::vector<std::vector<int64_t>>& groups) {
  Message list;
  for (const std::vector<int64_t>& group : groups) {
    list.Sub(1, Message().Ints(1, group));
  }
  return op.Sub(87, list).Int(26, 1);
}
Message AllToAll(const Message& result, const std::vector<int64_t>& operands) {
  return WithPartitions(Instruction("op", "all-to-all", result, 3, operands), kHalves);
}

std::string VetoOf(const std::string& module, Lowering lowering = Lowering::kCpu) {
  const PassResult result = Run(module, ListingAll(lowering));
  REQUIRE(result.records.size() == 1);
  CHECK(result.records[0].backend == "NVSHMEM");
  CHECK(result.records[0].lowered == (result.records[0].veto.empty() ? "NVSHMEM" : "DEFAULT"));
  return result.records[0].veto;
}

// The backend config of the call that "op" has become.
std::string CallOf(const std::string& module, const std::string& target) {
  const PassOptions options = ListingAll(Lowering::kCpu);
  const PassResult result = Run(module, options);
  const std::string_view op = FindInstruction(result.module, "op");
  CHECK(Only(op, 2) == "custom-call");
  CHECK(Only(op, 28) == target);
  CHECK(Fields(op, 14).empty());
  CHECK(Fields(op, 38).empty());
  CHECK_FALSE(Run(result.module, options).changed);
  return std::string(Only(op, 43));
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("ops that move bytes carry their groups in PEs, and no reduction") {
  // PE = 3 - device id here.
  const std::string groups = "group_offsets = array<i64: 0, 2, 4>, groups = array<i64: 3, 2, 1, 0>}";
  const Message small = ArrayShape({4, 2});
  const Message pair = TupleShape({small, small});
  for (const auto& [module, target] : std::vector<std::pair<std::string, std::string>>{
           {ModuleWith(AllGather(ArrayShape({8, 2}), 0), small), "xla_shmem.all_gather"},
           {ModuleWith(AllToAll(pair, {1, 2}), small, small), "xla_shmem.all_to_all"},
           {ModuleWith(AllToAll(small, {1}).Ints(14, {0}), small), "xla_shmem.all_to_all"},
           {ModuleWith(WithPartitions(Instruction("op", "collective-broadcast", small, 3, {1}), kHalves), small),
            "xla_shmem.collective_broadcast"}}) {
    const std::string config = CallOf(module, target);
    CHECK_MESSAGE(Has(config, groups), config);
    CHECK_FALSE(Has(config, "reduction"));
  }
}

TEST_CASE("a reduce-scatter carries its reduction, and is recorded with it") {
  const std::string module = ModuleWith(ReduceScatter(ArrayShape({4}), 0), ArrayShape({8}));
  CHECK(Has(CallOf(module, "xla_shmem.reduce_scatter"), "reduction = \"sum\", group_offsets = array<i64: 0, 2, 4>"));
  const PassResult result = Run(module, ListingAll(Lowering::kCpu));
  CHECK(result.records[0].reduction == "sum");
  CHECK(result.records[0].bytes == 16);
  CHECK(Same(Inspect(result.module)[0], result.records[0]));
}

TEST_CASE("what is not listed is neither decided on nor touched") {
  PassOptions options = MakeOptions(Lowering::kCpu);
  const std::string module = ModuleWith(AllGather(ArrayShape({16}), 0), ArrayShape({8}));
  CHECK_FALSE(Run(module, options).changed);
  options.assign.ops = {{CollectiveOp::kReduceScatter, std::nullopt}};
  const PassResult result = Run(module, options);
  CHECK_FALSE(result.changed);
  CHECK(result.records[0].reason == "all-gather is not listed in XLA_SHMEM_OPS");
  // and the published two only where they are listed
  const PassResult neither = Run(SyncModule(), options);
  CHECK_FALSE(neither.changed);
  CHECK(neither.records[0].rule == "unconsidered-op");
}

TEST_CASE("a gathered dimension has to be the most major one in memory") {
  const std::string apart = "result 0 is not the operands of 2 devices one after the other in memory";
  const auto gather = [](const Message& operand, const Message& result, int64_t dimension) {
    return VetoOf(ModuleWith(AllGather(result, dimension), operand));
  };
  CHECK(gather(Shape({4, 3}, {1, 0}), Shape({8, 3}, {1, 0}), 0).empty());
  CHECK(gather(Shape({4, 3}, {0, 1}), Shape({4, 6}, {0, 1}), 1).empty());
  CHECK(gather(Shape({4, 3}, {1, 0}), Shape({4, 6}, {1, 0}), 1) == apart);
  CHECK(gather(Shape({4, 3}, {0, 1}), Shape({8, 3}, {1, 0}), 0) == apart);
  CHECK(gather(Shape({4, 3}, {1, 0}), Shape({8, 4}, {1, 0}), 0) == apart);
  CHECK(gather(Shape({4, 3}, {1, 0}), Shape({16, 3}, {1, 0}), 0) == apart);
  CHECK(gather(Shape({4, 3}, {1, 0}), Shape({8, 3}, {1, 0}), 7) == apart);
  CHECK(gather(Shape({4, 3}, {1, 0}, 4), Shape({8, 3}, {1, 0}), 0) == apart);
  // dimensions of size 1 may stand anywhere
  CHECK(gather(Shape({5, 1, 3}, {2, 1, 0}), Shape({5, 2, 3}, {2, 0, 1}), 1).empty());
  CHECK(gather(Shape({1, 1}, {1, 0}), Shape({1, 2}, {1, 0}), 1).empty());
}

TEST_CASE("a scattered dimension too") {
  const auto scatter = [](const Message& operand, const Message& result, int64_t dimension) {
    return VetoOf(ModuleWith(ReduceScatter(result, dimension), operand));
  };
  CHECK(scatter(Shape({8, 3}, {1, 0}), Shape({4, 3}, {1, 0}), 0).empty());
  CHECK(scatter(Shape({4, 6}, {0, 1}), Shape({4, 3}, {0, 1}), 1).empty());
  CHECK(scatter(Shape({4, 6}, {1, 0}), Shape({4, 3}, {1, 0}), 1) ==
        "operand 0 is not the results of 2 devices one after the other in memory");
}

TEST_CASE("a split dimension too; of a tuple all arrays are alike, one for each member") {
  const Message array = Shape({4, 6}, {1, 0});
  CHECK(VetoOf(ModuleWith(AllToAll(array, {1}).Ints(14, {0}), array)).empty());
  CHECK(VetoOf(ModuleWith(AllToAll(array, {1}).Ints(14, {1}), array)) ==
        "its array is not 2 equal parts one after the other in memory");
  const Message odd = Shape({5, 6}, {1, 0});
  CHECK(VetoOf(ModuleWith(AllToAll(odd, {1}).Ints(14, {0}), odd)) ==
        "its array is not 2 equal parts one after the other in memory");
  CHECK(VetoOf(ModuleWith(AllToAll(array, {1}), array)) ==
        "its array is not 2 equal parts one after the other in memory");
  CHECK(VetoOf(ModuleWith(AllToAll(TupleShape({array, array}), {1, 2}), array, odd)) ==
        "operand and result 1 are not alike, or not like the others");
  CHECK(VetoOf(ModuleWith(AllToAll(TupleShape({array, odd}), {1, 2}), array, odd)) ==
        "operand and result 1 are not alike, or not like the others");
  CHECK(VetoOf(ModuleWith(AllToAll(TupleShape({array, array, array}), {1, 2, 2}), array, array)) ==
        "3 operands for groups of 2");
}

TEST_CASE("groups of several sizes have no common shape") {
  CHECK(VetoOf(ModuleWith(AllGather(ArrayShape({16}), 0, {{0, 1}, {2}, {3}}), ArrayShape({8}))) ==
        "its replica groups differ in size");
}

TEST_CASE("a ragged all-to-all is carried nowhere") {
  const Message array = ArrayShape({8});
  CHECK(VetoOf(ModuleWith(WithPartitions(Instruction("op", "ragged-all-to-all", array, 3, {1, 2, 1, 2, 1, 2}), kHalves),
                          array)) == "no SHMEM ragged-all-to-all");
}

TEST_CASE("GPUs keep what they do not carry, with the decision and the reason written on it") {
  PassOptions options = ListingAll(Lowering::kGpu);
  options.transport = GpuTransport({{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  const PassResult result = Run(NestedModule(), options);
  REQUIRE(result.records.size() == 2);
  CHECK(result.records[1].op == "reduce-scatter");
  CHECK(result.records[1].backend == "NVSHMEM");
  CHECK(result.records[1].veto == "no SHMEM reduce-scatter");
  CHECK(Only(FindInstruction(result.module, "rs-start"), 2) == "async-start");
  CHECK(Has(std::string(Only(FindInstruction(result.module, "rs-start"), 68)), "no SHMEM reduce-scatter"));
  CHECK_FALSE(Run(result.module, options).changed);
}

TEST_CASE("the lowering for GPUs writes no call that has no GPU handler") {
  CHECK(VetoOf(ModuleWith(AllGather(ArrayShape({16}), 0), ArrayShape({8})), Lowering::kGpu) ==
        "all-gather is lowered for CPU only");
}

}  // namespace
}  // namespace xla_shmem
