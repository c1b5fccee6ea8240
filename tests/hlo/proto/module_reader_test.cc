#include "xla_patch/hlo/proto/module_reader.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem::hlo {
namespace {

using namespace test;  // NOLINT: builders and decoders
using test::Computation;
using test::Instruction;

hlo::Module Read(const std::string& bytes) {
  auto made = ReadModule(bytes);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

std::string ReadError(const std::string& bytes) { return ReadModule(bytes).message(); }

uint64_t StructureHash(const std::string& bytes) { return Read(bytes).structure_hash; }

TEST_CASE("loops and async computations are known") {
  const std::string bytes = NestedModule();
  const hlo::Module module = Read(bytes);
  REQUIRE(module.computations.size() == 5);
  CHECK(module.computations[1].loop_depth == 1);
  CHECK(module.computations[3].loop_depth == 0);
  CHECK(module.computations[3].async_start >= 0);
  CHECK(module.computations[3].async_computation == 4);
  CHECK_FALSE(module.computations[3].has_many_callers);
}

TEST_CASE("loop depth and many callers reach what is called from there") {
  const Message s = ArrayShape({});
  const std::string bytes =
      test::Module(
          {Computation("leaf", 1, {Instruction("p", "parameter", s, 1)}, 1),
           Computation("body", 2,
                       {Instruction("p", "parameter", s, 1), Instruction("c", "call", s, 2, {1}).Ints(38, {1})}, 2),
           Computation("main", 3,
                       {Instruction("p", "parameter", s, 1), Instruction("w", "while", s, 2, {1}).Ints(38, {2}),
                        Instruction("x", "call", s, 3, {2}).Ints(38, {2})},
                       3)},
          3)
          .str();
  const hlo::Module module = Read(bytes);
  CHECK(module.computations[0].loop_depth == 1);
  CHECK(module.computations[0].has_many_callers);
  CHECK(module.computations[1].has_many_callers);
  CHECK_FALSE(module.computations[2].has_many_callers);
}

TEST_CASE("executions multiply along loops and add up over callers; an unknown count stays unknown") {
  const Message s = ArrayShape({});
  const auto module_with = [&](Message outer) {
    return Read(
        test::Module(
            {Computation("leaf", 1, {Instruction("p", "parameter", s, 1)}, 1),
             Computation("condition", 2, {Instruction("p", "parameter", s, 1)}, 1),
             Computation("inner", 3,
                         {Instruction("p", "parameter", s, 1), Instruction("c", "call", s, 2, {1}).Ints(38, {1}),
                          Instruction("d", "call", s, 3, {1}).Ints(38, {1})},
                         2),
             Computation(
                 "outer", 4,
                 {Instruction("p", "parameter", s, 1), WithTrips(Instruction("w", "while", s, 2, {1}), 3, 2, "7")}, 2),
             Computation("main", 5,
                         {Instruction("p", "parameter", s, 1), std::move(outer),
                          Instruction("x", "call", s, 3, {1}).Ints(38, {1})},
                         2)},
            5)
            .str());
  };
  const auto executions = [](const hlo::Module& module) {
    std::vector<int64_t> all;
    for (const auto& computation : module.computations) all.push_back(computation.executions);
    return all;
  };
  const Message loop = Instruction("o", "while", s, 2, {1});
  CHECK(executions(module_with(WithTrips(loop, 4, 2, "3"))) == std::vector<int64_t>{43, 28, 21, 3, 1});
  CHECK(executions(module_with(WithTrips(loop, 4, 2, "0"))) == std::vector<int64_t>{1, 1, 0, 0, 1});
  const std::vector<int64_t> unknown{-1, -1, -1, -1, 1};
  CHECK(executions(module_with(WithTrips(loop, 4, 2, "many"))) == unknown);
  CHECK(executions(module_with(WithTrips(loop, 4, 2, "9223372036854775807"))) ==
        std::vector<int64_t>{-1, -1, -1, INT64_MAX, 1});
  CHECK(executions(module_with(Instruction("o", "conditional", s, 2, {1}).Ints(38, {4, 2}))) == unknown);
}

TEST_CASE("a computation called by a fusion is a fusion's, flagged or not") {
  const Message s = ArrayShape({});
  const std::string bytes =
      test::Module(
          {Computation("fused", 1, {Instruction("p", "parameter", s, 1)}, 1),
           Computation("main", 2,
                       {Instruction("p", "parameter", s, 1), Instruction("f", "fusion", s, 2, {1}).Ints(38, {1})}, 2)},
          2)
          .str();
  CHECK(Read(bytes).computations[0].is_fusion);
}

TEST_CASE("callers before callees, unknown callees and repeated ids are errors") {
  const Message s = ArrayShape({});
  const Message leaf = Computation("leaf", 1, {Instruction("p", "parameter", s, 1)}, 1);
  const Message main = Computation("main", 2, {Instruction("c", "call", s, 1).Ints(38, {1})}, 1);
  CHECK(ReadError(test::Module({main, leaf}, 2).str()).find("computation 1 is called before it is defined") !=
        std::string::npos);
  CHECK(ReadError(test::Module({main}, 2).str()).find("called before") != std::string::npos);
  CHECK(ReadError(test::Module({leaf, leaf}, 1).str()).find("two computations with id 1") != std::string::npos);
  CHECK(ReadError("").find("no computations") != std::string::npos);
  CHECK(ReadError("HloModule jit_f, is_scheduled=true\n").find("not a well-formed HloModuleProto") == 0);
  CHECK_FALSE(ReadError(Message().Int(3, 5).str()).empty());
}

TEST_CASE("instructions are found by id whether ids are close together or not") {
  const Message s = ArrayShape({});
  const int64_t far = int64_t{5} << 40;
  const std::string bytes =
      test::Module(
          {Computation("main", 1, {Instruction("a", "parameter", s, -3), Instruction("b", "parameter", s, far)}, 1)}, 1)
          .str();
  const hlo::Module module = Read(bytes);
  const InstructionIndex sparse(module, module.computations[0]);
  CHECK(sparse.Find(far) == &module.instructions[1]);
  CHECK(sparse.Find(-3) == &module.instructions[0]);
  CHECK(sparse.Find(0) == nullptr);
  const std::string nested = NestedModule();
  const hlo::Module other = Read(nested);
  const InstructionIndex dense(other, other.computations[1]);
  CHECK(dense.Find(2) == &other.instructions[other.computations[1].first + 1]);
  CHECK(dense.Find(INT64_MIN) == nullptr);
  CHECK(dense.Find(3) == nullptr);
}

TEST_CASE("the structure hash ignores what differs between ranks and sees what matters") {
  const auto module = [](const Message& instruction, int64_t id = 5, const std::string& name = "jit_f") {
    return Message().Bytes(1, name).Sub(3, Computation("main", 1, {instruction}, 1)).Int(5, id).Int(23, id).str();
  };
  const Message base = WithPairs(Instruction("x", "collective-permute", ArrayShape({4}), 1, {2}), kRing);
  const uint64_t hash = StructureHash(module(base));
  CHECK(StructureHash(module(base, 6)) == hash);
  CHECK(StructureHash(module(Message(base).Sub(7, Message().Bytes(3, "/home/other/train.py")))) == hash);
  CHECK(StructureHash(module(Message(base).Bytes(43, "0x7f00"))) == hash);
  CHECK(StructureHash(module(base, 5, "jit_g")) != hash);
  CHECK(StructureHash(module(Message(base).Sub(52, Pair(1, 0)))) != hash);
  CHECK(StructureHash(module(WithPairs(Instruction("x", "collective-permute", ArrayShape({5}), 1, {2}), kRing))) !=
        hash);
  CHECK(StructureHash(module(WithPairs(Instruction("x", "collective-permute", ArrayShape({4}), 1, {3}), kRing))) !=
        hash);
}

TEST_CASE("programs that differ in a literal, a dimension, a slice or a comparison have other structure hashes") {
  const auto hash = [](const Message& instruction) {
    return StructureHash(Message().Bytes(1, "jit_f").Sub(3, Computation("main", 1, {instruction}, 1)).Int(5, 1).str());
  };
  const Message constant = Instruction("c", "constant", ArrayShape({2}), 1);
  const auto literal = [&](const char* bytes) { return hash(Message(constant).Sub(8, Message().Bytes(6, bytes))); };
  CHECK(literal("12345678") == literal("12345678"));
  CHECK(literal("12345678") != literal("12345679"));
  const Message transpose = Instruction("t", "transpose", ArrayShape({2, 2}), 2, {1});
  CHECK(hash(Message(transpose).Ints(14, {0, 1})) != hash(Message(transpose).Ints(14, {1, 0})));
  const Message slice = Instruction("s", "slice", ArrayShape({1}), 2, {1});
  const auto range = [](int64_t start) { return Message().Int(1, start).Int(2, start + 1).Int(3, 1); };
  CHECK(hash(Message(slice).Sub(17, range(0))) != hash(Message(slice).Sub(17, range(1))));
  const Message compare = Instruction("p", "compare", ArrayShape({2}), 2, {1, 1});
  CHECK(hash(Message(compare).Bytes(63, "LT")) != hash(Message(compare).Bytes(63, "GT")));
}

TEST_CASE("attributes of typed FFI calls enter the structure hash, but no addresses and no configs of XLA itself") {
  const auto hash = [](const char* config, int64_t api_version, const char* opcode = "custom-call") {
    const Message call = Message(Instruction("c", opcode, ArrayShape({2}), 1)).Bytes(43, config).Int(77, api_version);
    return StructureHash(Message().Bytes(1, "jit_f").Sub(3, Computation("main", 1, {call}, 1)).Int(5, 1).str());
  };
  constexpr int64_t kOriginal = 1, kTypedFfi = 4;
  CHECK(hash("{uplo = 76 : ui8}", kTypedFfi) != hash("{uplo = 85 : ui8}", kTypedFfi));
  CHECK(hash("{comm = 94839021776 : ui64, n = 2 : i64}", kTypedFfi) ==
        hash("{comm = 139639801102336 : ui64, n = 2 : i64}", kTypedFfi));
  CHECK(hash("{comm = 94839021776 : ui64, n = 2 : i64}", kTypedFfi) !=
        hash("{comm = 94839021776 : ui64, n = 3 : i64}", kTypedFfi));
  CHECK(hash("{\"selected_algorithm\":\"3\"}", kOriginal) == hash("{\"selected_algorithm\":\"7\"}", kOriginal));
}

TEST_CASE("opcodes are told apart exactly") {
  CHECK(ClassifyOpcode("all-reduce").op_class == OpClass::kCollective);
  CHECK(ClassifyOpcode("all-reduce-start").op_class == OpClass::kCollectiveStart);
  CHECK(ClassifyOpcode("collective-permute-done").collective == CollectiveOp::kCollectivePermute);
  CHECK(ClassifyOpcode("ragged-all-to-all").collective == CollectiveOp::kRaggedAllToAll);
  for (const char* other :
       {"add", "all-reducer", "reduce", "collective", "concatenate", "", "all-reduce-scatter", "reduce-window"}) {
    CHECK(ClassifyOpcode(other).op_class == OpClass::kOther);
  }
}

}  // namespace
}  // namespace xla_shmem::hlo
