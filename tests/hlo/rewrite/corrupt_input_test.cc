#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

// Both entry points must come back, with a message if they fail.
void Survive(const std::string& bytes) {
  static const PassOptions kCpu = MakeOptions(Lowering::kCpu);
  static const PassOptions kGpu = MakeOptions(Lowering::kGpu);
  static const PassOptions kOneAtATime = [] {
    PassOptions options = MakeOptions(Lowering::kCpu);
    options.one_at_a_time = true;
    return options;
  }();
  for (const PassOptions* options : {&kCpu, &kGpu, &kOneAtATime}) {
    const Result<PassResult> result = RunPass(bytes, *options);
    REQUIRE(result.ok() == result.message().empty());
  }
  const Result<std::vector<CollectiveRecord>> records = InspectModule(bytes);
  REQUIRE(records.ok() == records.message().empty());
}

TEST_CASE("every prefix of a module is survived") {
  for (const std::string& module :
       {SyncModule(), AsyncModule(), WrappedModule(), FusedModule(), DonatingModule(), NestedModule()}) {
    for (size_t size = 0; size < module.size(); ++size) {
      Survive(module.substr(0, size));
    }
  }
}

// The lowest bit, the one that continues a varint, and one of the others in turn: the fuzzers flip more.
TEST_CASE("flipped bits of every byte are survived") {
  for (std::string module :
       {SyncModule(), AsyncModule(), WrappedModule(), FusedModule(), DonatingModule(), NestedModule()}) {
    for (size_t i = 0; i < module.size(); ++i) {
      const int other = 1 + static_cast<int>(i % 6);
      for (int bit : {0, other, 7}) {
        module[i] = static_cast<char>(module[i] ^ (1 << bit));
        Survive(module);
        module[i] = static_cast<char>(module[i] ^ (1 << bit));
      }
    }
  }
}

TEST_CASE("a truncated module is an error that says so") {
  const std::string module = SyncModule();
  const Result<PassResult> result =
      RunPass(std::string_view(module).substr(0, module.size() - 40), MakeOptions(Lowering::kCpu));
  CHECK_FALSE(result.ok());
  CHECK(result.message().find("not a well-formed HloModuleProto: ") == 0);
}

TEST_CASE("a corrupt collective is an error that names it") {
  const Message array = ArrayShape({8});
  const std::string module =
      Module({Computation("main", 2,
                          {Instruction("p", "parameter", array, 1),
                           Instruction("cp.5", "collective-permute", array, 2, {1}).Bytes(52, "\x08")},
                          2)},
             2)
          .str();
  CHECK(RunPass(module, MakeOptions(Lowering::kCpu)).message() ==
        "not a well-formed HloModuleProto: cp.5: field 52 is malformed");
}

TEST_CASE("an instruction without a name is an error") {
  const Message array = ArrayShape({8});
  const auto module = [&](const std::string& name) {
    return Module(
               {Computation("main", 2,
                            {Instruction("p", "parameter", array, 1), Instruction(name, "negate", array, 2, {1})}, 2)},
               2)
        .str();
  };
  CHECK(RunPass(module("n"), MakeOptions(Lowering::kCpu)).ok());
  CHECK(RunPass(module(""), MakeOptions(Lowering::kCpu)).message() ==
        "not a well-formed HloModuleProto: computation: instruction 2 has no name");
}

TEST_CASE("an iota of 2^60 devices leaves the op on DEFAULT") {
  const Message array = ArrayShape({8});
  const int64_t huge = int64_t{1} << 60;
  const Message ar = Instruction("ar", "all-reduce", array, 2, {1}).Int(26, 1).Int(71, 1).Ints(38, {1});
  const std::string module =
      Module({ReductionComputation("add", 1),
              Computation("main", 2,
                          {Instruction("p", "parameter", array, 1),
                           Message(ar).Sub(92, Message().Int(1, 1).Int(2, huge).Ints(3, {huge}).Ints(4, {0}))},
                          2)},
             2)
          .str();
  const PassResult result = Run(module, MakeOptions(Lowering::kCpu));
  REQUIRE(result.records.size() == 1);
  CHECK(result.records[0].rule == "unresolved-groups");
  CHECK(result.records[0].lowered == "DEFAULT");
  CHECK_FALSE(Inspect(module).empty());
}

TEST_CASE("many compact groups of a million devices each are cut off, not computed for minutes") {
  std::vector<Message> instructions = {Instruction("p", "parameter", ArrayShape({8}), 1)};
  const int64_t million = int64_t{1} << 20;
  for (int i = 0; i < 3000; ++i) {
    instructions.push_back(Instruction("ag", "all-gather", ArrayShape({8}), i + 2, {1})
                               .Int(26, 1)
                               .Int(71, 1)
                               .Sub(92, Message().Int(1, 1).Int(2, million).Ints(3, {million}).Ints(4, {0})));
  }
  Message module;
  module.Sub(3, Computation("main", 1, instructions, 1));  // no device assignment
  const std::vector<CollectiveRecord> records = Inspect(module.str());
  REQUIRE(records.size() == 3000);
  CHECK(records[0].group_size == million);
  CHECK(records[2999].group_size == 0);
}

TEST_CASE("absurd nesting of shapes is an error") {
  Message shape = ArrayShape({1});
  for (int i = 0; i < 5000; ++i) {
    shape = TupleShape({shape});
  }
  const std::string module = Module({Computation("main", 1, {Instruction("ar", "all-reduce", shape, 1)}, 1)}, 1).str();
  CHECK(InspectModule(module).message().find("nested") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem
