#ifndef XLA_SHMEM_TESTS_HLO_CUT_MODULE_H_
#define XLA_SHMEM_TESTS_HLO_CUT_MODULE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::test {

// What CutModule may do otherwise than XLA:CPU does.
struct Oddities {
  std::vector<int64_t> order = {0, 1, 2, 3};   // of the slices among the operands
  std::vector<int64_t> joined = {0, 1, 2, 3};  // of the parts in the concatenation
  int64_t stride = 1;
  bool cuts_columns = false;
  std::function<Message(Message)> between = nullptr;  // instruction 30, run between the slices and the collective
  std::function<Message(Message)> behind = nullptr;  // instruction 31, run between the collective and the concatenation
  std::function<Message(Message)> concatenate = nullptr;
  bool is_scheduled = true;
};

inline Message SliceOf(const Message& shape, int64_t id, int64_t operand, std::vector<std::vector<int64_t>> ranges) {
  Message slice = Instruction("slice." + std::to_string(id), "slice", shape, id, {operand});
  for (const std::vector<int64_t>& range : ranges) {
    slice.Sub(17, Message().Int(1, range[0]).Int(2, range[1]).Int(3, range[2]));
  }
  return slice;
}

// main(x) = concatenate(all-to-all(slices of x)) + x of f32[8,6] on four devices; slice 0 is a fusion.
inline std::string CutModule(const Oddities& odd = {}) {
  const Message whole = ArrayShape({8, 6});
  const Message part = odd.cuts_columns ? ArrayShape({8, 6}) : ArrayShape({2, 6});
  const auto ranges = [&](int64_t k) {
    return std::vector<std::vector<int64_t>>{{2 * k, 2 * k + 2, odd.stride}, {0, 6, 1}};
  };
  const Message fused = Computation(
      "wrapped_slice", 3, {Instruction("p", "parameter", whole, 1), SliceOf(part, 2, 1, ranges(odd.order[0]))}, 2);
  std::vector<Message> main = {Instruction("x", "parameter", whole, 1),
                               Instruction("cut", "fusion", part, 10, {1}).Bytes(11, "kLoop").Ints(38, {3})};
  std::vector<int64_t> sequence = {1, 10};
  const auto add = [&](int64_t id, const Message& instruction) {
    main.push_back(instruction);
    sequence.push_back(id);
  };
  for (int64_t k = 1; k < 4; ++k) {
    add(10 + k, SliceOf(part, 10 + k, 1, ranges(odd.order[k])));
  }
  if (odd.between != nullptr) {
    add(30, odd.between(Instruction("between", "negate", ArrayShape({5}), 30, {1})));
  }
  add(20, Instruction("op", "all-to-all", TupleShape({part, part, part, part}), 20, {10, 11, 12, 13})
              .Sub(87, Message().Sub(1, Message().Ints(1, {0, 1, 2, 3})))
              .Int(26, 1));
  if (odd.behind != nullptr) {
    add(31, odd.behind(Instruction("behind", "negate", ArrayShape({5}), 31, {1})));
  }
  std::vector<int64_t> parts;
  for (int64_t k = 0; k < 4; ++k) {
    add(21 + k, Instruction("part", "get-tuple-element", part, 21 + k, {20}).Int(13, k));
    parts.push_back(21 + odd.joined[k]);
  }
  const Message concatenate = Instruction("joined", "concatenate", whole, 25, parts).Ints(14, {0});
  add(25, odd.concatenate == nullptr ? concatenate : odd.concatenate(concatenate));
  add(26, Instruction("sum", "add", whole, 26, {25, 1}));
  Message module = Module({fused, Computation("main", 2, main, 26)}, 2);
  return odd.is_scheduled ? module.Sub(7, ScheduleProto({{2, sequence}})).str() : module.str();
}

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_HLO_CUT_MODULE_H_
