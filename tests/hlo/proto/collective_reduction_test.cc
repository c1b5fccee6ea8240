#include "xla_patch/hlo/proto/collective_reduction.h"

#include <doctest/doctest.h>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::hlo {
namespace {

using test::Computation;
using test::Instruction;
using test::Message;

std::optional<ReductionKind> Match(const Message& computation) {
  const std::string bytes = Message().Sub(3, computation).str();
  const Result<Module> module = ReadModule(bytes);
  REQUIRE_MESSAGE(module.ok(), module.message());
  return MatchReduction(*module, 1);
}

TEST_CASE("the plain binary ops are recognised") {
  CHECK(Match(test::ReductionComputation("add", 1)) == ReductionKind::kSum);
  CHECK(Match(test::ReductionComputation("multiply", 1)) == ReductionKind::kProd);
  CHECK(Match(test::ReductionComputation("minimum", 1)) == ReductionKind::kMin);
  CHECK(Match(test::ReductionComputation("maximum", 1)) == ReductionKind::kMax);
  CHECK(Match(test::ReductionComputation("and", 1, 1)) == ReductionKind::kAnd);
  CHECK(Match(test::ReductionComputation("or", 1, 1)) == ReductionKind::kOr);
  CHECK(Match(test::ReductionComputation("xor", 1, 4)) == ReductionKind::kXor);
  CHECK(Match(test::ReductionComputation("subtract", 1)) == std::nullopt);
  CHECK(Match(test::ReductionComputation("add", 9)) == std::nullopt);
}

// convert(add(convert(a), convert(b))) with the outer type `narrow` and the inner type `wide`.
Message Detour(int narrow, int wide) {
  const Message n = Message().Int(2, narrow);
  const Message w = Message().Int(2, wide);
  return Computation("region", 1,
                     {Instruction("a", "parameter", n, 1).Int(9, 0), Instruction("b", "parameter", n, 2).Int(9, 1),
                      Instruction("ca", "convert", w, 3, {1}), Instruction("cb", "convert", w, 4, {2}),
                      Instruction("r", "add", w, 5, {4, 3}), Instruction("cr", "convert", n, 6, {5})},
                     6);
}

TEST_CASE("16-bit floats may be added in f32, nothing else may change type") {
  CHECK(Match(Detour(16, 11)) == ReductionKind::kSum);
  CHECK(Match(Detour(10, 11)) == ReductionKind::kSum);
  CHECK(Match(Detour(2, 11)) == std::nullopt);
  CHECK(Match(Detour(11, 12)) == std::nullopt);
  CHECK(Match(Detour(11, 16)) == std::nullopt);
}

TEST_CASE("anything but both parameters once is not a plain reduction") {
  const Message s = Message().Int(2, 11);
  const auto a = Instruction("a", "parameter", s, 1).Int(9, 0);
  const auto b = Instruction("b", "parameter", s, 2).Int(9, 1);
  CHECK(Match(Computation("r", 1, {a, b, Instruction("r", "add", s, 3, {1, 1})}, 3)) == std::nullopt);
  CHECK(Match(Computation("r", 1, {a, Instruction("c", "constant", s, 2), Instruction("r", "add", s, 3, {1, 2})}, 3)) ==
        std::nullopt);
  CHECK(Match(Computation("r", 1, {a, b, Instruction("r", "add", s, 3, {1, 7})}, 3)) == std::nullopt);
  CHECK(Match(Computation("r", 1, {a, b, Instruction("r", "negate", s, 3, {1})}, 3)) == std::nullopt);
  CHECK(Match(Computation("r", 1, {a, b}, 9)) == std::nullopt);
  const Message array = test::ArrayShape({4});
  CHECK(Match(Computation("r", 1, {a, b, Instruction("r", "add", array, 3, {1, 2})}, 3)) == std::nullopt);
}

}  // namespace
}  // namespace xla_shmem::hlo
