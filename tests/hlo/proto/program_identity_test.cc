#include "xla_patch/hlo/proto/program_identity.h"

#include <doctest/doctest.h>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"
#include "xla_patch/hlo/proto/collective_reader.h"

namespace xla_shmem::hlo {
namespace {

using namespace test;  // NOLINT: builders and decoders
using test::Computation;
using test::Instruction;

// The identities of all collectives of a module, in its order.
std::vector<CollectiveIdentity> Identify(const std::string& bytes) {
  auto module = ReadModule(bytes);
  REQUIRE_MESSAGE(module.ok(), module.message());
  auto collectives = FindCollectives(*module, DeviceAssignment());
  REQUIRE_MESSAGE(collectives.ok(), collectives.message());
  std::vector<size_t> places;
  for (const Collective& collective : *collectives) places.push_back(collective.instruction);
  IdentifyCollectives(*module, places, &*collectives);
  std::vector<CollectiveIdentity> identities;
  for (const Collective& collective : *collectives) identities.push_back(collective.identity);
  return identities;
}

// The form of a module.
uint64_t Form(const std::string& bytes) {
  const std::vector<CollectiveIdentity> identities = Identify(bytes);
  REQUIRE_FALSE(identities.empty());
  return identities[0].form;
}

Message Sum(const std::string& name, const Message& shape, int64_t id, int64_t operand, int64_t channel) {
  return WithGroups(Instruction(name, "all-reduce", shape, id, {operand}), {{0, 1, 2, 3}})
      .Ints(38, {1})
      .Int(26, channel);
}

std::string ModuleOf(const std::vector<Message>& instructions, int64_t root, const std::string& name = "jit_f") {
  return Message()
      .Bytes(1, name)
      .Sub(3, ReductionComputation("add", 1))
      .Sub(3, Computation("main", 2, instructions, root))
      .Int(5, 2)
      .Int(6, 2)
      .str();
}

const Message kFour = ArrayShape({4});

// psum(a * c): a constant, a product, a sum.
std::string Scaled(const char* literal, const std::string& name = "jit_f", const Message& shape = kFour) {
  return ModuleOf({Instruction("a", "parameter", shape, 1),
                   Instruction("c", "constant", shape, 2).Sub(8, Message().Bytes(6, literal)),
                   Instruction("m", "multiply", shape, 3, {1, 2}), Sum("s", shape, 4, 3, 1)},
                  4, name);
}

// psum(a) of shape `shape`, written in this line.
std::string Plain(const Message& sum) { return ModuleOf({Instruction("a", "parameter", kFour, 1), sum}, 2); }

TEST_CASE("ranks whose constants, numbers or names differ have one form") {
  const uint64_t form = Form(Scaled("12345678"));
  CHECK(form != 0);
  CHECK(Form(Scaled("87654321")) == form);
  // psum(a * 1): XLA has removed the product, and numbers what is left in another way.
  CHECK(Form(ModuleOf({Instruction("x", "parameter", kFour, 7), Sum("all-reduce.9", kFour, 9, 7, 1)}, 9)) == form);
}

TEST_CASE("what both ends of a message must agree on, and the place in the user's program, enter the form") {
  const uint64_t form = Form(Scaled("12345678"));
  CHECK(Form(Scaled("12345678", "jit_g")) != form);
  CHECK(Form(Scaled("12345678", "jit_f", ArrayShape({5}))) != form);
  CHECK(Form(Scaled("12345678", "jit_f", ArrayShape({2, 2}))) != form);
  const Message sum = Sum("s", kFour, 2, 1, 1);
  CHECK(Form(Plain(sum)) == form);
  CHECK(Form(Plain(Sum("s", kFour, 2, 1, 2))) != form);  // another channel
  CHECK(Form(Plain(WithGroups(Instruction("s", "all-reduce", kFour, 2, {1}), {{0, 1}, {2, 3}}).Ints(38, {1}))) != form);
  CHECK(Form(Plain(WithPairs(Instruction("s", "collective-permute", kFour, 2, {1}), kRing))) !=
        Form(Plain(WithPairs(Instruction("s", "collective-permute", kFour, 2, {1}), {{0, 1}}))));
  const auto at_line = [&](int64_t line) {
    return Form(Plain(Message(sum).Sub(7, Message().Bytes(3, "train.py").Int(4, line))));
  };
  CHECK(at_line(7) == at_line(7));
  CHECK(at_line(7) != at_line(8));
}

TEST_CASE("every collective has its own place, and a program with one more has another form") {
  const Message a = Instruction("a", "parameter", kFour, 1);
  const std::string two = ModuleOf({a, Sum("s", kFour, 2, 1, 1), Sum("t", kFour, 3, 2, 2)}, 3);
  const auto identities = Identify(two);
  REQUIRE(identities.size() == 2);
  CHECK(identities[0].place == 0);
  CHECK(identities[1].place == 1);
  CHECK(Form(ModuleOf({a, Sum("s", kFour, 2, 1, 1)}, 2)) != Form(two));
}

// Sums of two parameters, listed and scheduled as said. `a` and `b` are the parameters of the first and second listed.
std::string TwoSums(int64_t a, int64_t b, const std::vector<int64_t>& schedule) {
  return Message()
      .Bytes(1, "jit_f")
      .Sub(3, ReductionComputation("add", 1))
      .Sub(3, Computation("main", 2,
                          {Instruction("a", "parameter", kFour, 1), Instruction("b", "parameter", kFour, 2).Int(9, 1),
                           Sum("s", kFour, 3, a, 1), Sum("t", kFour, 4, b, 2),
                           Instruction("r", "tuple", TupleShape({kFour, kFour}), 5, {3, 4})},
                          5))
      .Int(5, 2)
      .Int(6, 2)
      .Sub(7, Message().Sub(1, Message().Int(1, 2).Sub(2, Message().Ints(1, schedule))))
      .str();
}

TEST_CASE("places follow the schedule") {
  const auto identities = Identify(TwoSums(1, 2, {1, 2, 4, 3, 5}));
  CHECK(identities[0].place == 1);
  CHECK(identities[1].place == 0);
}

TEST_CASE("two orders of one program's collectives have two forms, as far as channels tell them apart") {
  CHECK(Form(TwoSums(1, 2, {1, 2, 3, 4, 5})) != Form(TwoSums(1, 2, {1, 2, 4, 3, 5})));
}

TEST_CASE("operands that are exchanged give programs of one form other sources") {
  const auto identities = Identify(TwoSums(1, 2, {1, 2, 3, 4, 5}));
  const auto exchanged = Identify(TwoSums(2, 1, {1, 2, 3, 4, 5}));
  CHECK(identities[0].form == exchanged[0].form);
  REQUIRE(identities[0].sources.size() == 1);
  CHECK(identities[0].sources[0].second == 1);
  CHECK(identities[0].sources == exchanged[1].sources);
  CHECK(identities[0].sources != exchanged[0].sources);
}

TEST_CASE("an operand that no other looks like needs no sources") {
  CHECK(Identify(Scaled("12345678"))[0].sources.empty());
}

TEST_CASE("a collective knows the branches that it lies in") {
  const Message pair = TupleShape({kFour, kFour});
  const auto branch = [&](const char* name, int64_t id) {
    return Computation(name, id, {Instruction("p", "parameter", kFour, 1), Sum("s", kFour, 2, 1, id)}, 2);
  };
  const auto identities = Identify(
      Message()
          .Bytes(1, "jit_f")
          .Sub(3, ReductionComputation("add", 1))
          .Sub(3, branch("there", 2))
          .Sub(3, branch("back", 3))
          .Sub(3, Computation(
                      "main", 4,
                      {Instruction("i", "parameter", ArrayShape({}), 1), Instruction("x", "parameter", kFour, 2),
                       Instruction("c", "conditional", kFour, 3, {1, 2, 2}).Ints(38, {2, 3}), Sum("t", kFour, 4, 3, 9)},
                      4))
          .Int(6, 4)
          .str());
  REQUIRE(identities.size() == 3);
  REQUIRE(identities[0].branches.size() == 1);
  CHECK(identities[0].branches[0].number == 0);
  CHECK(identities[1].branches[0].number == 1);
  CHECK(identities[0].branches[0].conditional == identities[1].branches[0].conditional);
  CHECK(identities[2].branches.empty());
}

}  // namespace
}  // namespace xla_shmem::hlo
