// Cases that HLO text cannot express: bytes, and forms that jaxlib's parser refuses. The rest is in test_pass.py.
#include "xla_patch/hlo/rewrite/pass.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

// main() with one collective `op` on a parameter, over 4 devices.
std::string ModuleWith(const Message& op) {
  return Module({ReductionComputation("add", 1),
                 Computation("main", 2, {Instruction("p", "parameter", ArrayShape({8}), 1), op}, 2)},
                2)
      .str();
}

std::string VetoOf(const std::string& module) {
  const PassResult result = Run(module, MakeOptions(Lowering::kCpu));
  REQUIRE(result.records.size() == 1);
  CHECK(result.records[0].backend == "NVSHMEM");
  CHECK(result.records[0].lowered == "DEFAULT");
  return result.records[0].veto;
}

TEST_CASE("schedule, order, unknown fields and other instructions come out byte for byte") {
  const std::string bytes = SyncModule();
  const PassResult result = Run(bytes, MakeOptions(Lowering::kCpu));
  const auto before = Fields(bytes);
  const auto after = Fields(result.module);
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].number != 3 || Only(before[i].bytes, 1) != "main") {
      CHECK(before[i].whole == after[i].whole);
    }
  }
  CHECK(FindInstruction(result.module, "add.4") == FindInstruction(bytes, "add.4"));
  for (const char* name : {"permute.2", "all-reduce.3"}) {
    for (const uint32_t kept : {1, 3, 7, 35, 36, 37, 40, 4321}) {
      CHECK(Fields(FindInstruction(result.module, name), kept)[0].whole ==
            Fields(FindInstruction(bytes, name), kept)[0].whole);
    }
    CHECK(Only(FindInstruction(result.module, name), 68).find("mine") != std::string::npos);
  }
}

TEST_CASE("the call of a fused all-reduce has nothing of its fusion but name, place and what other tools wrote") {
  const std::string bytes = FusedModule();
  const PassResult result = Run(bytes, MakeOptions(Lowering::kGpu));
  CHECK(result.records.size() == 2);
  for (const char* name : {"fusion-start", "fusion.1"}) {
    const std::string_view call = FindInstruction(result.module, name);
    CHECK(Only(call, 2) == "custom-call");
    for (const uint32_t dropped : {11, 38}) CHECK(Fields(call, dropped).empty());  // kind, computation
    for (const uint32_t kept : {7, 35, 37, 4321}) {
      CHECK(Fields(call, kept)[0].whole == Fields(FindInstruction(bytes, name), kept)[0].whole);
    }
    CHECK(Only(call, 68).find("mine") != std::string::npos);
  }
}

TEST_CASE("a permute whose shape is given twice is vetoed") {
  const Message permute = WithPairs(Instruction("cp", "collective-permute", ArrayShape({8}), 2, {1}), kRing);
  CHECK(VetoOf(ModuleWith(Message(permute).Sub(3, ArrayShape({8})))) == "its shape is given twice");
}

TEST_CASE("an all-reduce without a computation is vetoed") {
  const Message bare = WithGroups(Instruction("ar", "all-reduce", ArrayShape({8}), 2, {1}), {{0, 1, 2, 3}});
  CHECK(VetoOf(ModuleWith(bare)) == "the reduction is not a plain sum, prod, min, max, and, or or xor");
}

TEST_CASE("groups of global device ids in an op that cannot have them are left to XLA") {
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (info.Has(op_trait::kPairs)) {
      continue;
    }
    CAPTURE(info.name);
    const Message op = WithGroups(Instruction("op", info.name, ArrayShape({8}), 2, {1}), {{0, 1, 2, 3}});
    PassOptions options = MakeOptions(Lowering::kCpu);
    options.assign.ops = {{info.op, std::nullopt}};
    const PassResult result = Run(ModuleWith(op), options);
    REQUIRE(result.records.size() == 1);
    CHECK((result.records[0].rule == "unresolved-groups") == !info.Has(op_trait::kGlobalDeviceIds));
  }
}

TEST_CASE("a backend config kept in the module's payload table is read as well") {
  const Message op =
      WithGroups(Instruction("ar", "all-reduce", ArrayShape({8}), 2, {1}), {{0, 1}}).Sub(99, Message().Int(2, 1));
  const std::string module =
      ModuleWith(op) +
      Message().Bytes(22, "{}").Bytes(22, R"({"collective_backend_config":{"backend":"NVSHMEM"}})").str();
  CHECK(Inspect(module)[0].backend == "NVSHMEM");
}

}  // namespace
}  // namespace xla_shmem
