// All-to-alls of arrays that XLA has cut up and put together again, which one call does without either.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/hlo/cut_module.h"
#include "tests/hlo/decoded.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

PassOptions ListingAllToAll() {
  PassOptions options = MakeOptions(Lowering::kCpu);
  options.assign.ops.push_back({CollectiveOp::kAllToAll, std::nullopt});
  return options;
}

// What the pass makes of the module: the ids that run, the call's id and its operands.
struct Outcome {
  std::vector<int64_t> runs;
  int64_t id = 0;
  std::vector<int64_t> operands;
  size_t computations = 0;
  std::string shape;
};

std::vector<int64_t> Ints(std::string_view packed) {
  std::vector<int64_t> values;
  std::string field;
  hlo::WriteBytesField(1, packed, &field);
  REQUIRE(hlo::AppendRepeatedInts(Fields(field)[0], &values));
  return values;
}

Outcome OutcomeOf(const std::string& module) {
  const PassOptions options = ListingAllToAll();
  const PassResult result = Run(module, options);
  CheckSettled(result, options);
  REQUIRE(result.records.size() == 1);
  CHECK(result.records[0].lowered == "NVSHMEM");
  CHECK(result.records[0].bytes == 192);
  Outcome outcome;
  const std::string_view call = FindInstruction(result.module, "op");
  CHECK(Only(call, 28) == "xla_shmem.all_to_all");
  outcome.id = Fields(call, 35)[0].AsInt();
  for (const hlo::Field& field : Fields(call, 36)) {
    const std::vector<int64_t> operands = Ints(field.bytes);
    outcome.operands.insert(outcome.operands.end(), operands.begin(), operands.end());
  }
  outcome.shape = std::string(Only(call, 3));
  outcome.computations = Fields(result.module, 3).size();
  // What runs is what there is.
  std::vector<int64_t> ids;
  for (const hlo::Field& computation : Fields(result.module, 3)) {
    if (Only(computation.bytes, 1) == "main") {
      for (const hlo::Field& instruction : Fields(computation.bytes, 2)) {
        ids.push_back(Fields(instruction.bytes, 35)[0].AsInt());
      }
    }
  }
  if (Fields(result.module, 7).empty()) {
    outcome.runs = ids;
  } else {
    const std::string_view sequence = Only(Only(Only(result.module, 7), 1), 2);
    outcome.runs = Ints(Only(sequence, 1));
    CHECK(outcome.runs == ids);
  }
  return outcome;
}

const std::vector<int64_t> kSlices = {10, 11, 12, 13};
const std::string kWhole = ArrayShape({8, 6}).str();

TEST_CASE("slices and concatenation go, and the call stands where the concatenation stood") {
  const Outcome outcome = OutcomeOf(CutModule());
  CHECK(outcome.runs == std::vector<int64_t>{1, 25, 26});
  CHECK(outcome.id == 25);
  CHECK(outcome.operands == std::vector<int64_t>{1});
  CHECK(outcome.shape == kWhole);
  CHECK(outcome.computations == 1);
}

TEST_CASE("slices that are no parts in order stay, and the results are put together all the same") {
  for (const Oddities& odd :
       {Oddities{{1, 0, 2, 3}}, Oddities{{0, 1, 2, 2}}, Oddities{{0, 1, 2, 3}, {0, 1, 2, 3}, 2}}) {
    const Outcome outcome = OutcomeOf(CutModule(odd));
    CHECK(outcome.runs == std::vector<int64_t>{1, 10, 11, 12, 13, 25, 26});
    CHECK(outcome.operands == kSlices);
    CHECK(outcome.shape == kWhole);
    CHECK(outcome.computations == 2);
  }
}

TEST_CASE("a concatenation of other parts, or along another dimension, stays") {
  Oddities columns;
  columns.concatenate = [](Message) {
    return Instruction("joined", "concatenate", ArrayShape({2, 24}), 25, {21, 22, 23, 24}).Ints(14, {1});
  };
  for (const Oddities& odd : {Oddities{{0, 1, 2, 3}, {0, 2, 1, 3}}, Oddities{{0, 1, 2, 3}, {0, 1, 2, 2}}, columns}) {
    const Outcome outcome = OutcomeOf(CutModule(odd));
    CHECK(outcome.runs == std::vector<int64_t>{1, 20, 21, 22, 23, 24, 25, 26});
    CHECK(outcome.id == 20);
    CHECK(outcome.operands == std::vector<int64_t>{1});
    CHECK(outcome.computations == 1);
  }
}

TEST_CASE("what else uses a part, or waits for it, keeps it") {
  const auto uses = [](int64_t id) {
    return [id](Message) { return Instruction("reader", "negate", ArrayShape({2, 6}), 30, {id}); };
  };
  Oddities slice_used;
  slice_used.between = uses(12);
  CHECK(OutcomeOf(CutModule(slice_used)).operands == kSlices);

  Oddities slice_awaited;
  slice_awaited.between = [](Message message) { return message.Ints(37, {11}); };
  CHECK(OutcomeOf(CutModule(slice_awaited)).operands == kSlices);

  Oddities collective_awaited;
  collective_awaited.behind = [](Message message) { return message.Ints(37, {20}); };
  CHECK(OutcomeOf(CutModule(collective_awaited)).id == 20);

  Oddities tuple_used;
  tuple_used.behind = [](Message) {
    return Instruction("again", "get-tuple-element", ArrayShape({2, 6}), 31, {20}).Int(13, 1);
  };
  CHECK(OutcomeOf(CutModule(tuple_used)).id == 20);

  Oddities concatenation_waits;
  concatenation_waits.concatenate = [](Message message) { return message.Ints(37, {1}); };
  CHECK(OutcomeOf(CutModule(concatenation_waits)).id == 20);
}

// The array is read later than XLA thinks. What may have been given its buffer has its size.
TEST_CASE("nothing may write over the array until the call has read it") {
  const auto making = [](const Message& shape, const std::string& opcode = "negate") {
    return [shape, opcode](Message) { return Instruction("writer", opcode, shape, 30, {1}); };
  };
  for (const auto& writer :
       {making(ArrayShape({8, 6})), making(ArrayShape({48})), making(TupleShape({ArrayShape({3}), ArrayShape({6, 8})})),
        making(TupleShape({TupleShape({ArrayShape({3})})})), making(ArrayShape({3}), "while"),
        making(ArrayShape({3}), "conditional"), making(ArrayShape({3}), "call"),
        making(ArrayShape({3}), "async-start")}) {
    Oddities before;
    before.between = writer;
    const Outcome outcome = OutcomeOf(CutModule(before));
    CHECK(outcome.operands == kSlices);
    CHECK(outcome.id == 20);
  }
  Oddities after;
  after.behind = [](Message) { return Instruction("writer", "negate", ArrayShape({8, 6}), 31, {1}); };
  const Outcome outcome = OutcomeOf(CutModule(after));
  CHECK(outcome.operands == std::vector<int64_t>{1});
  CHECK(outcome.id == 20);

  Oddities harmless;
  harmless.between = making(ArrayShape({7, 6}));
  harmless.behind = [](Message) { return Instruction("name", "bitcast", ArrayShape({48}), 31, {1}); };
  CHECK(OutcomeOf(CutModule(harmless)).id == 25);
}

TEST_CASE("without a schedule nobody knows what runs when") {
  Oddities odd;
  odd.is_scheduled = false;
  const Outcome outcome = OutcomeOf(CutModule(odd));
  CHECK(outcome.operands == kSlices);
  CHECK(outcome.id == 20);
}

}  // namespace
}  // namespace xla_shmem
