#include "xla_patch/hlo/proto/async_pairs.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"
#include "xla_patch/hlo/proto/attributes.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

const Message kArray = ArrayShape({256});

std::string Opcode(std::string_view module, std::string_view name) {
  return std::string(Only(FindInstruction(module, name), 2));
}
std::string Target(std::string_view module, std::string_view name) {
  return std::string(Only(FindInstruction(module, name), 28));
}
std::string Attribute(std::string_view module, std::string_view name, const std::string& key) {
  const Attributes own = hlo::ReadOwnAttributes(hlo::AttributeFields(FindInstruction(module, name)));
  return own.count(key) > 0 ? own.at(key) : "";
}

// main(p) with a wrapped permute `op` behind `start`, `between` it and its done.
std::string ModuleWithPair(const Message& op, const Message& start, const std::vector<Message>& between = {},
                           const Message& done = AsyncDone("done", kArray, 30, 20)) {
  std::vector<Message> instructions = {Instruction("p", "parameter", kArray, 1), start};
  std::vector<int64_t> sequence = {1, 20};
  for (size_t i = 0; i < between.size(); ++i) {
    instructions.push_back(between[i]);
    sequence.push_back(21 + static_cast<int64_t>(i));
  }
  instructions.push_back(done);
  sequence.push_back(30);
  return Module({ReductionComputation("add", 1), AsyncComputation("async", 3, {kArray}, op),
                 Computation("main", 2, instructions, 30)},
                2)
      .Sub(7, ScheduleProto({{2, sequence}}))
      .str();
}
Message PermuteOp() { return WithPairs(Instruction("ppermute", "collective-permute", kArray, 9, {1}), kRing); }
Message AllReduceOp() {
  return WithGroups(Instruction("psum", "all-reduce", kArray, 9, {1}), {{0, 1, 2, 3}}).Ints(38, {1});
}
Message Start() { return AsyncStart("start", {kArray}, kArray, 20, {1}, 3); }
Message Work(int64_t id) { return Instruction("work", "negate", kArray, id, {1}); }

std::string VetoOf(const std::string& module) {
  const PassOptions options = MakeOptions(Lowering::kGpu);
  const PassResult result = Run(module, options);
  REQUIRE(result.records.size() == 1);
  CHECK(result.records[0].backend == "NVSHMEM");
  CheckSettled(result, options);
  return result.records[0].veto;
}

TEST_CASE("generic pairs become the same custom calls as native ones") {
  const PassOptions options = MakeOptions(Lowering::kGpu);
  const PassResult result = Run(WrappedModule(), options);
  REQUIRE(result.records.size() == 3);
  CHECK(result.records[0].name == "cp-start");
  CHECK(result.records[0].computation == "main");
  CHECK(result.records[1].bytes == 2048);
  const auto get = [&](const char* name) { return FindInstruction(result.module, name); };
  CHECK(Target(result.module, "cp-start") == "xla_shmem.permute_start");
  CHECK(Only(get("cp-start"), 3) == kArray.str());
  CHECK(Fields(get("cp-start"), 74).empty());
  CHECK(Fields(get("cp-start"), 38).empty());
  CHECK(Fields(get("cp-start"), 79).empty());
  CHECK(Only(get("cp-start"), 68).find("mine") != std::string::npos);
  CHECK(Target(result.module, "cp-done") == "xla_shmem.permute_done");
  CHECK(Only(get("cp-done"), 74).empty());  // result {} is operand 0 {}
  CHECK(Fields(get("cp-done"), 36)[1].bytes == "\x01");
  CHECK(Only(get("cp-start"), 43) == Only(get("cp-done"), 43));
  CHECK(Only(get("cp-start"), 43).find("pairs = array<i64: 3, 2,") != std::string::npos);
  CheckSettled(result, options);
}

TEST_CASE("a combined generic pair keeps the buffers that XLA had it share") {
  const PassResult result = Run(WrappedModule(), MakeOptions(Lowering::kGpu));
  const std::string_view start = FindInstruction(result.module, "ar-start");
  CHECK(Target(result.module, "ar-start") == "xla_shmem.all_reduce_start");
  REQUIRE(Fields(start, 74).size() == 2);
  CHECK(Fields(start, 74)[0].bytes == Message().Ints(1, {0}).str());
  CHECK(Fields(start, 74)[1].bytes == Message().Ints(1, {1}).Int(2, 1).str());
  CHECK(Fields(FindInstruction(result.module, "ar-done"), 36).size() == 1);
}

TEST_CASE("operands of a generic all-reduce that is not in place live until the done") {
  const std::string bytes = ModuleWithPair(AllReduceOp(), Start(), {Work(21)});
  const PassResult result = Run(bytes, MakeOptions(Lowering::kGpu));
  CHECK(Fields(FindInstruction(result.module, "start"), 74).empty());
  REQUIRE(Fields(FindInstruction(result.module, "done"), 36).size() == 2);
  CHECK(Fields(FindInstruction(result.module, "done"), 36)[1].bytes == "\x01");
}

TEST_CASE("a pair with nothing to overlap becomes one call and a barrier that XLA takes out") {
  const PassResult result = Run(WrappedModule(), MakeOptions(Lowering::kGpu));
  const std::string_view call = FindInstruction(result.module, "ar1-start");
  CHECK(Target(result.module, "ar1-start") == "xla_shmem.all_reduce");
  CHECK(Only(call, 3) == kArray.str());
  CHECK(Only(call, 74).empty());
  CHECK(Opcode(result.module, "ar1-done") == "opt-barrier");
  CHECK(Only(FindInstruction(result.module, "ar1-done"), 36) == "\x08");
  CHECK(Only(FindInstruction(result.module, "ar1-done"), 3) == kArray.str());
  CHECK(Attribute(result.module, "ar1-done", "xla_shmem.lowered") == "NVSHMEM");
}

TEST_CASE("what runs between start and done decides between pair and call") {
  const auto target = [](const std::string& module) {
    return Target(Run(module, MakeOptions(Lowering::kGpu)).module, "start");
  };
  const Message bitcast = Instruction("b", "bitcast", kArray, 21, {1});
  CHECK(target(ModuleWithPair(PermuteOp(), Start())) == "xla_shmem.collective_permute");
  CHECK(target(ModuleWithPair(PermuteOp(), Start(), {bitcast})) == "xla_shmem.collective_permute");
  CHECK(target(ModuleWithPair(PermuteOp(), Start(), {bitcast, Work(22)})) == "xla_shmem.permute_start");
  const Message done = AsyncDone("done", kArray, 30, 20);
  CHECK(target(ModuleWithPair(PermuteOp(), Start(), {}, Message(done).Ints(37, {1}))) == "xla_shmem.permute_start");
  // Without a schedule nothing is known.
  const Message main = Computation("main", 2, {Instruction("p", "parameter", kArray, 1), Start(), done}, 30);
  CHECK(target(Module({ReductionComputation("add", 1), AsyncComputation("async", 3, {kArray}, PermuteOp()), main}, 2)
                   .str()) == "xla_shmem.permute_start");
}

TEST_CASE("native pairs follow the same rule") {
  const Message start =
      WithPairs(Instruction("start", "collective-permute-start", TupleShape({kArray, kArray}), 20, {1}), kRing);
  const Message done = Instruction("done", "collective-permute-done", kArray, 30, {20});
  const Message main = Computation("main", 2, {Instruction("p", "parameter", kArray, 1), start, done}, 30);
  const PassOptions options = MakeOptions(Lowering::kGpu);
  const PassResult result = Run(Module({main}, 2).Sub(7, ScheduleProto({{2, {1, 20, 30}}})).str(), options);
  CHECK(Target(result.module, "start") == "xla_shmem.collective_permute");
  CHECK(Only(FindInstruction(result.module, "start"), 3) == kArray.str());
  CHECK(Opcode(result.module, "done") == "opt-barrier");
  CheckSettled(result, options);
}

TEST_CASE("a generic pair on DEFAULT gains attributes on op, start and done, and nothing else") {
  const std::string bytes = ModuleWithPair(AllReduceOp(), Start(), {Work(21)});
  PassOptions options = MakeOptions(Lowering::kGpu);
  options.assign.threshold = 1024;
  const PassResult result = Run(bytes, options);
  for (const char* name : {"psum", "start", "done"}) {
    CHECK(Attribute(result.module, name, "xla_shmem.rule") == "size");
    for (const hlo::Field& field : Fields(FindInstruction(result.module, name))) {
      if (field.number != 68) {
        CHECK(Fields(FindInstruction(bytes, name), field.number)[0].whole == field.whole);
      }
    }
  }
  CheckSettled(result, options);
}

TEST_CASE("a generic pair that is more than its collective is vetoed with the reason") {
  CHECK(VetoOf(ModuleWithPair(PermuteOp(), Start())).empty());
  const std::string more = "its async computation holds more than the collective";
  const Message unused_parameter = Module(
      {AsyncComputation("async", 3, {kArray, kArray}, PermuteOp()),
       Computation("main", 2,
                   {Instruction("p", "parameter", kArray, 1),
                    AsyncStart("start", {kArray, kArray}, kArray, 20, {1, 1}, 3), AsyncDone("done", kArray, 30, 20)},
                   30)},
      2);
  CHECK(VetoOf(unused_parameter.str()) == more);
  const Message other_root = Module(
      {Computation(
           "async", 3,
           {Instruction("param", "parameter", kArray, 1), PermuteOp(), Instruction("after", "negate", kArray, 10, {9})},
           10),
       Computation("main", 2, {Instruction("p", "parameter", kArray, 1), Start(), AsyncDone("done", kArray, 30, 20)},
                   30)},
      2);
  CHECK(VetoOf(other_root.str()) == more);
  CHECK(VetoOf(ModuleWithPair(PermuteOp(), Start().Sub(74, Message().Ints(1, {0, 0})))) ==
        "its start shares buffers in a way that is not known here");
  CHECK(VetoOf(ModuleWithPair(PermuteOp(), Start().Sub(74, Message().Ints(1, {1}).Ints(3, {0})))) ==
        "its start shares buffers in a way that is not known here");
  CHECK(VetoOf(ModuleWithPair(PermuteOp(), Start(), {}, AsyncDone("done", ArrayShape({128}), 30, 20))) ==
        "its start and done differ in shape");
  CHECK(VetoOf(ModuleWithPair(PermuteOp(), Start(), {Instruction("u", "async-update", kArray, 21, {20})},
                              AsyncDone("done", kArray, 30, 21))) ==
        "its start is not used by exactly one done in the same computation");
}

TEST_CASE("pairs are not lowered for CPU") {
  const PassResult result = Run(WrappedModule(), MakeOptions(Lowering::kCpu));
  for (const CollectiveRecord& record : result.records) {
    CHECK(record.veto == "start/done pairs are lowered for GPU only");
  }
}

TEST_CASE("a computation that nothing calls holds no collective of the module") {
  const Message dead = AsyncComputation("dead", 3, {kArray}, PermuteOp());
  const Message main = Computation("main", 2, {Instruction("p", "parameter", kArray, 1)}, 1);
  CHECK(Inspect(Module({dead, main}, 2).str()).empty());
  CHECK_FALSE(Run(Module({dead, main}, 2).str(), MakeOptions(Lowering::kGpu)).changed);
}

}  // namespace
}  // namespace xla_shmem
