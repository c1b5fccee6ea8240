#include "xla_patch/hlo/analysis/work.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::hlo {
namespace {

using namespace test;  // NOLINT: builders
using test::Computation;
using test::Instruction;

// Kept alive: the counts point into the module's bytes.
struct Counted {
  explicit Counted(const Message& module) : bytes(module.str()) {
    const Result<hlo::Module> module_read = ReadModule(bytes);
    REQUIRE_MESSAGE(module_read.ok(), module_read.message());
    const Result<std::vector<Work>> work = CountWork(*module_read);
    REQUIRE_MESSAGE(work.ok(), work.message());
    for (const Work& one : *work) {
      by_name[std::string(one.name)] = one;
    }
  }
  Counted(const Counted&) = delete;

  std::string bytes;
  std::map<std::string, Work> by_name;
};

Message Main(const std::vector<Message>& instructions, int64_t root) {
  return Computation("main", 100, instructions, root);
}

// dot_dimension_numbers of a product that sums over dimension `left` of the left operand.
Message Contracting(Message dot, int64_t left) { return dot.Sub(30, Message().Ints(1, {left}).Ints(2, {0})); }

const Message kMatrix = ArrayShape({8, 16});

TEST_CASE("a dot counts 2·M·N·K, whichever dimension it sums over") {
  const Counted counted(test::Module(
      {Main({Instruction("a", "parameter", kMatrix, 1), Instruction("b", "parameter", ArrayShape({16, 4}), 2),
             Contracting(Instruction("ab", "dot", ArrayShape({8, 4}), 3, {1, 2}), 1),
             Instruction("at", "parameter", ArrayShape({16, 8}), 4),
             Contracting(Instruction("atb", "dot", ArrayShape({8, 4}), 5, {4, 2}), 0)},
            5)},
      100));
  CHECK(counted.by_name.at("ab").flops == 2 * 8 * 4 * 16);
  CHECK(counted.by_name.at("atb").flops == 2 * 8 * 4 * 16);
  CHECK(counted.by_name.at("ab").bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4));
  CHECK(counted.by_name.at("a").kind == WorkKind::kFree);
}

TEST_CASE("a convolution counts the kernel once for each element of the result") {
  const Message numbers = Message().Int(3, 1).Int(4, 2).Ints(6, {0});  // kernel: spatial, in, out
  const Counted counted(
      test::Module({Main({Instruction("x", "parameter", ArrayShape({2, 10, 3}), 1),
                          Instruction("k", "parameter", ArrayShape({5, 3, 7}), 2),
                          Instruction("conv", "convolution", ArrayShape({2, 6, 7}), 3, {1, 2}).Sub(16, numbers)},
                         3)},
                   100));
  CHECK(counted.by_name.at("conv").flops == 2 * (2 * 6 * 7) * (5 * 3));
}

TEST_CASE("XLA:GPU's matrix products say in their backend config what they sum over, other custom calls do not tell") {
  const std::string config =
      R"({"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"x":[]}}})";
  const Message result = TupleShape({ArrayShape({8, 4}), ArrayShape({1000}, 2)});
  const auto call = [&](std::string_view name, int64_t id, std::string_view target) {
    return Instruction(name, "custom-call", result, id, {1, 2}).Bytes(28, target);
  };
  const Counted counted(test::Module(
      {Main(
          {Instruction("a", "parameter", kMatrix, 1), Instruction("b", "parameter", ArrayShape({16, 4}), 2),
           call("old", 3, "__cublas$gemm").Bytes(43, config), call("f8", 4, "__cublas$lt$matmul$f8").Bytes(43, config),
           call("mute", 5, "__cublas$gemm"), call("attention", 6, "__cudnn$fmhaSoftmax").Bytes(43, config)},
          3)},
      100));
  CHECK(counted.by_name.at("old").flops == 2 * 8 * 4 * 16);
  CHECK(counted.by_name.at("f8").flops == 2 * 8 * 4 * 16);
  CHECK(counted.by_name.at("mute").flops == -1);
  CHECK(counted.by_name.at("attention").flops == -1);
}

TEST_CASE("a fusion counts what it holds, and of a sliced operand the slice") {
  const Message table = ArrayShape({1000, 16});
  const Message row = ArrayShape({1, 16});
  const Message index = ArrayShape({}, 4);
  const Message fused =
      Computation("fused", 1,
                  {Instruction("p", "parameter", table, 1).Int(9, 0), Instruction("i", "parameter", index, 2).Int(9, 1),
                   Instruction("same", "bitcast", table, 3, {1}), Instruction("s", "dynamic-slice", row, 4, {3, 2, 2}),
                   Instruction("twice", "add", row, 5, {4, 4}), Instruction("r", "exponential", row, 6, {5})},
                  6);
  const Message updating = Computation(
      "updating", 2,
      {Instruction("p", "parameter", table, 1).Int(9, 0), Instruction("r", "parameter", row, 2).Int(9, 1),
       Instruction("i", "parameter", index, 3).Int(9, 2),
       Instruction("u", "dynamic-update-slice", table, 4, {1, 2, 3, 3}), Instruction("b", "bitcast", table, 5, {4})},
      5);
  const Counted counted(
      test::Module({fused, updating,
                    Main({Instruction("p", "parameter", table, 1), Instruction("i", "parameter", index, 2),
                          Instruction("reads", "fusion", row, 3, {1, 2}).Ints(38, {1}),
                          Instruction("writes", "fusion", table, 4, {1, 3, 2}).Ints(38, {2}),
                          Instruction("slice", "dynamic-slice", row, 5, {1, 2, 2}),
                          Instruction("update", "dynamic-update-slice", table, 6, {1, 5, 2, 2})},
                         6)},
                   100));
  CHECK(counted.by_name.at("reads").flops == 16 + 16);
  CHECK(counted.by_name.at("reads").bytes == 64 + 4 + 64);  // a row, the index, the result
  CHECK(counted.by_name.at("writes").flops == 0);
  CHECK(counted.by_name.at("writes").bytes == 64 + 4 + 64);  // the new row, the index, the row as written
  CHECK(counted.by_name.at("slice").bytes == 64 + 64);
  CHECK(counted.by_name.at("update").bytes == 64 + 64);
}

TEST_CASE("a reduction counts its function once for each element that it takes away") {
  const Counted counted(
      test::Module({ReductionComputation("add", 1),
                    Main({Instruction("a", "parameter", kMatrix, 1), Instruction("zero", "constant", ArrayShape({}), 2),
                          Instruction("sums", "reduce", ArrayShape({8}), 3, {1, 2}).Ints(38, {1})},
                         3)},
                   100));
  CHECK(counted.by_name.at("sums").flops == 8 * 16 - 8);
}

TEST_CASE("counts that no 64 bits hold are unknown, not negative") {
  const Message huge = ArrayShape({int64_t{1} << 40, int64_t{1} << 22});
  const Counted counted(test::Module(
      {Main({Instruction("a", "parameter", huge, 1), Contracting(Instruction("aa", "dot", huge, 2, {1, 1}), 0),
             Contracting(Instruction("bad", "dot", kMatrix, 3, {1, 1}), 7)},
            2)},
      100));
  CHECK(counted.by_name.at("aa").flops == -1);
  CHECK(counted.by_name.at("aa").bytes == -1);
  CHECK(counted.by_name.at("bad").flops == -1);
}

}  // namespace
}  // namespace xla_shmem::hlo
