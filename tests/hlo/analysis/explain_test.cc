#include "xla_patch/hlo/analysis/explain.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"
#include "xla_patch/hlo/proto/source_lines.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

std::vector<Explanation> Explain(const std::string& module, const PassOptions& options) {
  auto made = ExplainModule(module, options);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

TEST_CASE("what is explained is what the pass decides, and what it read before it rewrote") {
  for (const std::string& module : {SyncModule(), ListedModule(), NestedModule()}) {
    const PassOptions options = MakeOptions(Lowering::kCpu);
    const PassResult result = Run(module, options);
    const std::vector<Explanation> before = Explain(module, options);
    REQUIRE(before.size() == result.records.size());
    for (size_t i = 0; i < before.size(); ++i) {
      CHECK(before[i].decided.name == result.records[i].name);
      CHECK(before[i].decided.backend == result.records[i].backend);
      CHECK(before[i].decided.lowered == result.records[i].lowered);
      CHECK(before[i].decided.rule == result.records[i].rule);
      CHECK(before[i].decided.reason == result.records[i].reason);
      CHECK(before[i].decided.veto == result.records[i].veto);
      CHECK_FALSE(before[i].trace.empty());
    }
    const std::vector<Explanation> after = Explain(result.changed ? result.module : module, options);
    REQUIRE(after.size() == before.size());
    for (size_t i = 0; i < after.size(); ++i) {
      CHECK(after[i].decided.reason == before[i].decided.reason);
      CHECK(after[i].decided.lowered == before[i].decided.lowered);
      CHECK(after[i].groups.devices == before[i].groups.devices);
      CHECK(after[i].groups.offsets == before[i].groups.offsets);
      CHECK(after[i].pairs == before[i].pairs);
    }
  }
}

TEST_CASE("what is written stays as it was, whatever the options say now") {
  const PassResult result = Run(SyncModule(), MakeOptions(Lowering::kCpu));
  PassOptions strict = MakeOptions(Lowering::kCpu);
  strict.assign.threshold = 0;
  const std::vector<Explanation> explanations = Explain(result.module, strict);
  REQUIRE(explanations.size() == 2);
  CHECK(explanations[1].written.lowered == "NVSHMEM");
  CHECK(explanations[1].decided.lowered == "DEFAULT");
  CHECK(explanations[1].decided.rule == "size");
}

TEST_CASE("a rewritten collective of which the topology has no PE is not guessed at") {
  const PassResult result = Run(SyncModule(), MakeOptions(Lowering::kCpu));
  PassOptions small = MakeOptions(Lowering::kCpu);
  small.topology = *Topology::Create({{0, 0, 0, 0, 0}, {1, 0, 0, 0, 1}});
  for (const Explanation& explanation : Explain(result.module, small)) {
    CHECK(explanation.trace.empty());
    CHECK(explanation.decided.reason == explanation.written.reason);
  }
}

TEST_CASE("file and line are found by the number of the stack frame where the metadata lacks them") {
  const auto location = [](int64_t file, int64_t line) { return Message().Int(1, file).Int(3, line); };
  const auto module = [&](const Message& metadata) {
    return Module({ReductionComputation("add", 1),
                   Computation("main", 2,
                               {Instruction("p", "parameter", ArrayShape({8}), 1),
                                WithPairs(Instruction("cp", "collective-permute", ArrayShape({8}), 2, {1}), kRing)
                                    .Sub(7, metadata)},
                               2)},
                  2)
        .Sub(17, Message()
                     .Bytes(1, "/a.py")
                     .Bytes(1, "/b.py")
                     .Bytes(2, "f")
                     .Sub(3, location(1, 10))
                     .Sub(3, location(2, 20))
                     .Sub(4, Message().Int(1, 1))
                     .Sub(4, Message().Int(1, 2).Int(2, 1)))
        .str();
  };
  const auto source = [&](const Message& metadata) {
    const std::vector<CollectiveRecord> records = Inspect(module(metadata));
    return records[0].source_file + ":" + std::to_string(records[0].source_line);
  };
  CHECK(source(Message().Int(15, 2)) == "/b.py:20");
  CHECK(source(Message().Int(15, 1)) == "/a.py:10");
  CHECK(source(Message().Bytes(3, "/own.py").Int(4, 5).Int(15, 2)) == "/own.py:5");
  for (const int64_t none : {0, 3, -1}) {
    CHECK(source(Message().Int(15, none)) == ":0");
  }
}

}  // namespace
}  // namespace xla_shmem
