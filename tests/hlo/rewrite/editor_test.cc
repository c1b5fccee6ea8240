#include "xla_patch/hlo/rewrite/editor.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"
#include "xla_patch/hlo/rewrite/edited_collective.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"

namespace xla_shmem::hlo {
namespace {

using namespace test;  // NOLINT: builders and decoders

using test::Instruction;

Module Read(const std::string& bytes) {
  auto made = ReadModule(bytes);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

TEST_CASE("no edits give the module back byte for byte") {
  const std::string bytes = SyncModule();
  CHECK(ApplyEdits(Read(bytes), {}) == bytes);
}

TEST_CASE("an instruction replaced by itself changes nothing") {
  const std::string bytes = NestedModule();
  const Module module = Read(bytes);
  std::vector<InstructionEdit> edits;
  for (size_t c = 0; c < module.computations.size(); ++c) {
    for (size_t i = module.computations[c].first; i < module.computations[c].last; ++i) {
      edits.push_back({c, i, std::string(module.instructions[i].body), {}});
    }
  }
  CHECK(ApplyEdits(module, edits) == bytes);
}

TEST_CASE("edits leave everything around them where it was") {
  const std::string bytes = SyncModule();
  const Module module = Read(bytes);
  const std::string grown(module.instructions[4].body);
  const std::string edited =
      ApplyEdits(module, {{1, 4, grown + Message().Bytes(200, std::string(300, 'x')).str(), {}}});
  const auto before = Fields(bytes);
  const auto after = Fields(edited);
  REQUIRE(before.size() == after.size());
  int differing = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].number == after[i].number);
    differing += before[i].whole != after[i].whole ? 1 : 0;
  }
  CHECK(differing == 1);  // the computation that was edited
  CHECK(Fields(FindInstruction(edited, "permute.2"), 200).size() == 1);
  CHECK(FindInstruction(edited, "all-reduce.3") == FindInstruction(bytes, "all-reduce.3"));
}

TEST_CASE("attributes go where the field stood, or to the end") {
  const std::string with = Message().Int(35, 1).Sub(68, Message()).Int(9, 2).str();
  CHECK(Fields(WithAttributes(with, {{"xla_shmem.rule", "r"}}))[1].number == 68);
  const std::string without = Message().Int(35, 1).Int(9, 2).str();
  const std::string added = WithAttributes(without, {{"xla_shmem.rule", "r"}});
  CHECK(added.substr(0, without.size()) == without);
  CHECK(Fields(added).back().number == 68);
}

TEST_CASE("a custom call drops what it cannot have and keeps the rest byte for byte") {
  const Message original = WithExtras(WithGroups(Instruction("ar", "all-reduce", ArrayShape({4}), 3, {2}), {{0, 1}}))
                               .Ints(38, {1})
                               .Int(45, 3)
                               .Int(56, 1)
                               .Sub(57, ArrayShape({4}))
                               .Bytes(43, "old")
                               .Sub(99, Message().Int(2, 1))
                               .Sub(49, Message().Ints(1, {0}))
                               .Sub(52, Pair(0, 1))
                               .Sub(92, Message())
                               .Sub(93, Message());
  CustomCall call;
  call.target = "xla_shmem.all_reduce";
  call.backend_config = "{op = 1 : i64}";
  call.extra_operands = {300};
  call.aliasing = {{{1}, 2, {}}};
  const std::string rewritten = AsCustomCall(original.str(), call, {});
  for (const uint32_t gone : {26, 38, 45, 49, 52, 56, 57, 71, 87, 92, 93, 99}) {
    CHECK(Fields(rewritten, gone).empty());
  }
  CHECK(Only(rewritten, 2) == "custom-call");
  CHECK(Only(rewritten, 28) == call.target);
  CHECK(Only(rewritten, 43) == call.backend_config);
  CHECK(Fields(rewritten, 65)[0].value == 1);
  CHECK(Fields(rewritten, 77)[0].value == 4);
  CHECK(Only(rewritten, 74) == Message().Ints(1, {1}).Int(2, 2).str());
  CHECK(Fields(rewritten, 36).back().bytes == Message().Ints(1, {300}).str().substr(2));
  for (const uint32_t kept : {1, 3, 7, 35, 37, 40, 4321}) {
    CHECK(Fields(rewritten, kept)[0].whole == Fields(original.str(), kept)[0].whole);
  }
}

TEST_CASE("whatever an instruction becomes, its control predecessors, metadata and foreign attributes stay") {
  const std::string original = WithExtras(Instruction("ar", "all-reduce", ArrayShape({4}), 3, {2})).str();
  const Attributes own = {{"xla_shmem.rule", "r"}};
  InstructionChange change;
  change.attributes = own;
  StockCollective stock;
  stock.opcode = "all-gather";
  const std::pair<const char*, std::string> all[] = {
      {"the same", WithAttributes(original, own)},
      {"custom call", AsCustomCall(original, CustomCall(), own)},
      {"barrier", AsBarrier(original, own)},
      {"changed", ChangeInstruction(original, change)},
      {"stock", AsStockCollective({"new", 9}, stock, original, own).body},
  };
  for (const auto& one : all) {
    CAPTURE(one.first);
    const std::string& written = one.second;
    for (const uint32_t kept : {7, 37}) {
      REQUIRE(Fields(written, kept).size() == 1);
      CHECK(Fields(written, kept)[0].whole == Fields(original, kept)[0].whole);
    }
    const std::string_view attributes = Only(written, 68);
    CHECK(attributes.find("mine") != std::string_view::npos);
    CHECK(attributes.find("xla_shmem.rule") != std::string_view::npos);
  }
}

TEST_CASE("a barrier keeps id, shape and operand, and has nothing of a done but its name") {
  const Message done = WithExtras(Instruction("ar-done", "async-done", ArrayShape({4}), 3, {2}))
                           .Ints(38, {1})
                           .Bytes(43, "config")
                           .Bytes(79, "collectives");
  const std::string barrier = AsBarrier(done.str(), {});
  CHECK(Only(barrier, 2) == "opt-barrier");
  for (const uint32_t gone : {38, 43, 79}) {
    CHECK(Fields(barrier, gone).empty());
  }
  for (const uint32_t kept : {1, 3, 7, 35, 36, 37, 40, 4321}) {
    CHECK(Fields(barrier, kept)[0].whole == Fields(done.str(), kept)[0].whole);
  }
}

}  // namespace
}  // namespace xla_shmem::hlo
