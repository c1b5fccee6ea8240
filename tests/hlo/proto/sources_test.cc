#include "xla_patch/hlo/proto/sources.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"

namespace xla_shmem::hlo {
namespace {

using namespace test;  // NOLINT: builders and decoders
using test::Computation;
using test::Instruction;

const Message kTwo = ArrayShape({2});

// The sources of the last instruction.
uint64_t SourcesOfRoot(const std::vector<Message>& instructions) {
  const std::string text = Message()
                               .Bytes(1, "jit_f")
                               .Sub(3, Computation("main", 1, instructions, static_cast<int64_t>(instructions.size())))
                               .Int(6, 1)
                               .str();
  auto module = ReadModule(text);
  REQUIRE_MESSAGE(module.ok(), module.message());
  return FindSources(*module).back();
}

TEST_CASE("an instruction depends on the parameters that lead to it, whatever lies between") {
  const Message a = Instruction("a", "parameter", kTwo, 1), b = Instruction("b", "parameter", kTwo, 2).Int(9, 5);
  CHECK(SourcesOfRoot({a, b, Instruction("n", "negate", kTwo, 3, {2})}) == 1 << 5);
  CHECK(SourcesOfRoot({a, b, Instruction("n", "negate", kTwo, 3, {2}), Instruction("s", "add", kTwo, 4, {1, 3})}) ==
        (1 << 5 | 1));
  CHECK(SourcesOfRoot({a, b, Instruction("c", "constant", kTwo, 3), Instruction("n", "negate", kTwo, 4, {3})}) == 0);
}

TEST_CASE("elements of tuples are told apart") {
  const Message pair = TupleShape({kTwo, kTwo});
  const Message p = Instruction("p", "parameter", pair, 1);
  const auto element = [&](int64_t id, int64_t of, int64_t number) {
    return Instruction("e", "get-tuple-element", kTwo, id, {of}).Int(13, number);
  };
  CHECK(SourcesOfRoot({p, element(2, 1, 3)}) == 1 << 3);
  const Message turned = Instruction("t", "tuple", pair, 4, {3, 2});
  CHECK(SourcesOfRoot({p, element(2, 1, 0), element(3, 1, 1), turned, element(5, 4, 0)}) == 1 << 1);
  // A loop may move anything from one element to another.
  const Message loop = Instruction("w", "while", pair, 5, {4});
  CHECK(SourcesOfRoot({p, element(2, 1, 0), element(3, 1, 1), turned, loop, element(6, 5, 0)}) == 3);
}

}  // namespace
}  // namespace xla_shmem::hlo
