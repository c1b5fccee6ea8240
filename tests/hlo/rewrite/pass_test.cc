#include "xla_patch/hlo/rewrite/pass.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"
#include "xla_patch/hlo/proto/attributes.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

std::string Target(std::string_view module, std::string_view name) {
  const auto fields = Fields(FindInstruction(module, name), 28);
  return fields.empty() ? "" : std::string(fields[0].bytes);
}

Attributes Written(std::string_view module, std::string_view name) {
  return hlo::ReadOwnAttributes(hlo::AttributeFields(FindInstruction(module, name)));
}

// main() with one collective `op` on a parameter, over 4 devices.
std::string ModuleWith(const Message& op, const Message& operand = ArrayShape({8})) {
  return Module({ReductionComputation("add", 1),
                 Computation("main", 2, {Instruction("p", "parameter", operand, 1), op}, 2)},
                2)
      .str();
}
Message PermuteOp(const Message& shape = ArrayShape({8})) {
  return WithPairs(Instruction("cp", "collective-permute", shape, 2, {1}), kRing);
}

std::string VetoOf(const std::string& module, Lowering lowering = Lowering::kCpu) {
  const PassResult result = Run(module, MakeOptions(lowering));
  REQUIRE(result.records.size() == 1);
  CHECK(result.records[0].backend == "NVSHMEM");
  CHECK(result.records[0].lowered == (result.records[0].veto.empty() ? "NVSHMEM" : "DEFAULT"));
  return result.records[0].veto;
}

TEST_CASE("sync collectives become CPU custom calls in place") {
  const std::string bytes = SyncModule();
  const PassOptions options = MakeOptions(Lowering::kCpu);
  const PassResult result = Run(bytes, options);
  REQUIRE(result.records.size() == 2);
  CHECK(Target(result.module, "permute.2") == "xla_shmem.collective_permute");
  CHECK(Target(result.module, "all-reduce.3") == "xla_shmem.all_reduce");
  // PE = 3 - device id here.
  const std::string permute(Only(FindInstruction(result.module, "permute.2"), 43));
  CHECK(permute.find("pairs = array<i64: 3, 2, 2, 1, 1, 0, 0, 3>}") != std::string::npos);
  CHECK(permute.find("module = \"jit_f\", name = \"permute.2\", topology = ") != std::string::npos);
  const std::string all_reduce(Only(FindInstruction(result.module, "all-reduce.3"), 43));
  CHECK(all_reduce.find("reduction = \"sum\", group_offsets = array<i64: 0, 4>, groups = array<i64: 3, 2, 1, 0>}") !=
        std::string::npos);
  CHECK(result.records[0].source_file == "/home/me/train.py");
  CHECK(result.records[0].source_line == 42);
  CHECK(Written(result.module, "permute.2").at("xla_shmem.source") == "/home/me/train.py:42");
  CHECK(result.records[1].bytes == 4096);
  CHECK(result.records[1].group_size == 4);
  CheckSettled(result, options);
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

TEST_CASE("an all-reduce left on DEFAULT only gains attributes") {
  const std::string bytes = SyncModule(int64_t{1} << 22);
  const PassOptions options = MakeOptions(Lowering::kCpu);
  const PassResult result = Run(bytes, options);
  const std::string_view before = FindInstruction(bytes, "all-reduce.3");
  const std::string_view after = FindInstruction(result.module, "all-reduce.3");
  for (const hlo::Field& field : Fields(before)) {
    if (field.number != 68) {
      CHECK(Fields(after, field.number)[0].whole == field.whole);
    }
  }
  const Attributes written = Written(result.module, "all-reduce.3");
  CHECK(written.at("xla_shmem.backend") == "DEFAULT");
  CHECK(written.at("xla_shmem.rule") == "size");
  CHECK(written.at("xla_shmem.reason") == "all-reduce of 16.0 MiB ≥ threshold 16.0 MiB");
  CHECK(written.count("xla_shmem.veto") == 0);
  CHECK(Target(result.module, "permute.2") == "xla_shmem.collective_permute");
  CheckSettled(result, options);
}

TEST_CASE("start/done pairs become GPU custom calls, combined ones too") {
  const std::string bytes = AsyncModule();
  const PassOptions options = MakeOptions(Lowering::kGpu);
  const PassResult result = Run(bytes, options);
  REQUIRE(result.records.size() == 3);
  CHECK(result.records[0].name == "cp-start");
  CHECK(result.records[0].op == "collective-permute");
  CHECK(result.records[0].bytes == 1024);
  CHECK(result.records[2].bytes == 2048);
  const auto get = [&](const char* name) { return FindInstruction(result.module, name); };
  CHECK(Target(result.module, "cp-start") == "xla_shmem.permute_start");
  CHECK(Only(get("cp-start"), 3) == Only(get("cp-done"), 3));
  CHECK(Fields(get("cp-start"), 74).empty());
  CHECK(Target(result.module, "cp-done") == "xla_shmem.permute_done");
  CHECK(Only(get("cp-done"), 74).empty());  // all defaults: result {} is operand 0 {}
  CHECK(Fields(get("cp-done"), 36).size() == 2);
  CHECK(Fields(get("cp-done"), 36)[1].bytes == "\x01");  // the source
  CHECK(Target(result.module, "ar-start") == "xla_shmem.all_reduce_start");
  CHECK(Fields(get("ar-start"), 74)[1].bytes == Message().Ints(1, {1}).Int(2, 1).str());
  CHECK(Fields(get("ar-done"), 74)[1].bytes == Message().Ints(1, {1}).Ints(3, {1}).str());
  CHECK(Fields(get("ar-done"), 36).size() == 1);
  CHECK(Fields(get("cp2-done"), 36)[1].bytes == "\x01\x02");
  CHECK(Fields(get("cp2-done"), 74).size() == 2);
  CHECK(Only(get("cp-start"), 43) == Only(get("cp-done"), 43));
  CheckSettled(result, options);
}

TEST_CASE("pairs left on DEFAULT keep their GPU config and both carry the decision") {
  const std::string bytes = AsyncModule();
  PassOptions options = MakeOptions(Lowering::kGpu);
  options.transport = Transport();
  options.transport.unavailable_reason = "libnvshmem_host.so.3: not found";
  const PassResult result = Run(bytes, options);
  CHECK(Only(FindInstruction(result.module, "cp-start"), 43) == Only(FindInstruction(bytes, "cp-start"), 43));
  for (const char* name : {"cp-start", "cp-done"}) {
    CHECK(Written(result.module, name).at("xla_shmem.backend") == "NVSHMEM");
    CHECK(Written(result.module, name).at("xla_shmem.lowered") == "DEFAULT");
    CHECK(Written(result.module, name).at("xla_shmem.veto") == "libnvshmem_host.so.3: not found");
  }
  CheckSettled(result, options);
}

TEST_CASE("lowering none writes attributes and nothing else") {
  const PassOptions options = MakeOptions(Lowering::kNone);
  for (const std::string& bytes : {SyncModule(), AsyncModule()}) {
    const PassResult result = Run(bytes, options);
    for (const CollectiveRecord& record : result.records) {
      CHECK(record.lowered == "NVSHMEM");
      CHECK(Target(result.module, record.name).empty());
    }
    CheckSettled(result, options);
  }
}

TEST_CASE("another threshold decides again on a module that was only annotated") {
  PassOptions options = MakeOptions(Lowering::kNone);
  const PassResult first = Run(SyncModule(), options);
  options.assign.threshold = 100;
  const PassResult second = Run(first.module, options);
  REQUIRE(second.changed);
  CHECK(Written(second.module, "all-reduce.3").at("xla_shmem.rule") == "size");
}

TEST_CASE("loops and wrapped collectives are listed where a user sees them") {
  const PassOptions options = MakeOptions(Lowering::kCpu);
  const PassResult result = Run(NestedModule(), options);
  REQUIRE(result.records.size() == 2);
  CHECK(result.records[0].name == "permute.9");
  CHECK(result.records[0].computation == "body");
  CHECK(result.records[0].in_loop);
  CHECK(result.records[0].executions == 5);
  CHECK(result.records[1].name == "rs-start");
  CHECK(result.records[1].op == "reduce-scatter");
  CHECK(result.records[1].computation == "main");
  CHECK(result.records[1].executions == 1);
  CHECK(result.records[1].rule == "unconsidered-op");
  CheckSettled(result, options);
}

TEST_CASE("ops are numbered apart, the same on every run") {
  const PassOptions options = MakeOptions(Lowering::kCpu);
  const PassResult result = Run(SyncModule(), options);
  CHECK(Run(SyncModule(), options).module == result.module);
  const auto id = [&](const char* name) {
    return std::string(Only(FindInstruction(result.module, name), 43)).substr(0, 20);
  };
  CHECK(id("permute.2") != id("all-reduce.3"));
}

TEST_CASE("rings are the groups of a permute") {
  const Message two_rings =
      WithPairs(Instruction("cp", "collective-permute", ArrayShape({8}), 2, {1}), {{0, 1}, {1, 0}, {2, 3}});
  const PassResult result = Run(ModuleWith(two_rings), MakeOptions(Lowering::kCpu));
  CHECK(result.records[0].num_groups == 2);
  CHECK(result.records[0].group_size == 2);
  CHECK(result.records[0].num_pairs == 3);
  CheckSettled(result, MakeOptions(Lowering::kCpu));
}

TEST_CASE("what cannot be replaced in place is vetoed with the reason") {
  CHECK(VetoOf(ModuleWith(PermuteOp())).empty());
  CHECK(VetoOf(ModuleWith(PermuteOp(), ArrayShape({9}))) == "operand and result 0 differ in shape or layout");
  CHECK(VetoOf(ModuleWith(PermuteOp(ArrayShape({8}, 21)), ArrayShape({8}, 21))) == "s4 has no whole-byte elements");
  CHECK(VetoOf(ModuleWith(PermuteOp().Ints(20, {1}))) == "it permutes slices in place");
  CHECK(VetoOf(ModuleWith(PermuteOp().Sub(3, ArrayShape({8})))) == "its shape is given twice");
  const Message two_to_one =
      WithPairs(Instruction("cp", "collective-permute", ArrayShape({8}), 2, {1}), {{0, 1}, {2, 1}});
  CHECK(VetoOf(ModuleWith(two_to_one)) == "device 1 is the target of two pairs");
  const Message dynamic = Message(ArrayShape({8})).Ints(6, {1});
  CHECK(VetoOf(ModuleWith(PermuteOp(dynamic), dynamic)) == "it has dynamic dimensions");
  const Message host = Message().Int(2, 11).Ints(3, {8}).Sub(5, Message().Ints(1, {0}).Int(8, 5));
  CHECK(VetoOf(ModuleWith(PermuteOp(host), host)) == "it works on host memory");
  CHECK(VetoOf(ModuleWith(PermuteOp()), Lowering::kGpu).empty());
  const Message bare = WithGroups(Instruction("ar", "all-reduce", ArrayShape({8}), 2, {1}), {{0, 1, 2, 3}});
  CHECK(VetoOf(ModuleWith(bare)) == "the reduction is not a plain sum, prod, min, max, and, or or xor");
}

TEST_CASE("a start without exactly one done is vetoed") {
  const Message array = ArrayShape({8});
  const Message start =
      WithPairs(Instruction("s", "collective-permute-start", TupleShape({array, array}), 2, {1}), kRing);
  CHECK(VetoOf(ModuleWith(start), Lowering::kGpu) ==
        "its start is not used by exactly one done in the same computation");
}

TEST_CASE("a collective that could run twice at once is vetoed") {
  const Message array = ArrayShape({8});
  const std::string module =
      Module(
          {Computation("callee", 1, {Instruction("p", "parameter", array, 1), PermuteOp()}, 2),
           Computation("main", 2,
                       {Instruction("p", "parameter", array, 1), Instruction("c1", "call", array, 2, {1}).Ints(38, {1}),
                        Instruction("c2", "call", array, 3, {2}).Ints(38, {1})},
                       3)},
          2)
          .str();
  CHECK(VetoOf(module) == "its computation is called from more than one place, so it could run twice at once");
}

TEST_CASE("the device assignment maps ids before PEs do") {
  const Message array = ArrayShape({8});
  const std::string module =
      Message()
          .Bytes(1, "m")
          .Sub(3, Computation("main", 2,
                              {Instruction("p", "parameter", array, 1),
                               WithPairs(Instruction("cp", "collective-permute", array, 2, {1}), {{0, 1}})},
                              2))
          .Sub(15, DeviceAssignmentProto({{2}, {0}, {1}, {3}}))
          .str();
  const PassResult result = Run(module, MakeOptions(Lowering::kCpu));
  // partitions 0 and 1 are devices 2 and 0, which are PEs 1 and 3
  CHECK(Only(FindInstruction(result.module, "cp"), 43).find("pairs = array<i64: 1, 3>") != std::string::npos);
}

TEST_CASE("modules of stock XLA:GPU show what its assigner wrote") {
  const Message array = ArrayShape({8});
  const auto stock = [&](const std::string& config) {
    const auto records = Inspect(
        ModuleWith(WithGroups(Instruction("ar", "all-reduce", array, 2, {1}), {{0, 1, 2, 3}}).Bytes(43, config)));
    REQUIRE(records.size() == 1);
    CHECK(records[0].rule == "stock");
    return records[0];
  };
  CHECK(stock(R"({"collective_backend_config":{"backend":"NVSHMEM"}})").backend == "NVSHMEM");
  CHECK(stock(R"({"collective_backend_config":{"is_sync":true}})").reason == "stock XLA wrote backend DEFAULT");
  CHECK(stock("").reason == "no backend is recorded, so XLA uses its default");
  CHECK(stock("").lowered == "DEFAULT");
}

TEST_CASE("a backend config kept in the module's payload table is read as well") {
  const Message op =
      WithGroups(Instruction("ar", "all-reduce", ArrayShape({8}), 2, {1}), {{0, 1}}).Sub(99, Message().Int(2, 1));
  const std::string module =
      ModuleWith(op) +
      Message().Bytes(22, "{}").Bytes(22, R"({"collective_backend_config":{"backend":"NVSHMEM"}})").str();
  CHECK(Inspect(module)[0].backend == "NVSHMEM");
}

TEST_CASE("custom calls of the user are none of ours") {
  const Message call = Instruction("cc", "custom-call", ArrayShape({8}), 2, {1}).Bytes(28, "xla_shmem.something");
  CHECK(Inspect(ModuleWith(call)).empty());
  CHECK_FALSE(Run(ModuleWith(call), MakeOptions(Lowering::kCpu)).changed);
}

}  // namespace
}  // namespace xla_shmem
