// Counts that HLO text cannot express: its parser refuses such shapes. The rest is in test_work.py.
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
