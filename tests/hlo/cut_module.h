#ifndef XLA_SHMEM_TESTS_HLO_CUT_MODULE_H_
#define XLA_SHMEM_TESTS_HLO_CUT_MODULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::test {

inline Message SliceOf(const Message& shape, int64_t id, int64_t operand,
                       const std::vector<std::vector<int64_t>>& ranges) {
  Message slice = Instruction("slice." + std::to_string(id), "slice", shape, id, {operand});
  for (const std::vector<int64_t>& range : ranges) {
    slice.Sub(17, Message().Int(1, range[0]).Int(2, range[1]).Int(3, 1));
  }
  return slice;
}

// main(x) = concatenate(all-to-all(slices of x)) + x of f32[8,6] on four devices, as XLA:CPU writes it; slice 0 is a
// fusion.
inline std::string CutModule() {
  const Message whole = ArrayShape({8, 6});
  const Message part = ArrayShape({2, 6});
  const auto ranges = [](int64_t k) { return std::vector<std::vector<int64_t>>{{2 * k, 2 * k + 2}, {0, 6}}; };
  const Message fused =
      Computation("wrapped_slice", 3, {Instruction("p", "parameter", whole, 1), SliceOf(part, 2, 1, ranges(0))}, 2);
  std::vector<Message> main = {Instruction("x", "parameter", whole, 1),
                               Instruction("cut", "fusion", part, 10, {1}).Bytes(11, "kLoop").Ints(38, {3})};
  for (int64_t k = 1; k < 4; ++k) {
    main.push_back(SliceOf(part, 10 + k, 1, ranges(k)));
  }
  main.push_back(Instruction("op", "all-to-all", TupleShape({part, part, part, part}), 20, {10, 11, 12, 13})
                     .Sub(87, Message().Sub(1, Message().Ints(1, {0, 1, 2, 3})))
                     .Int(26, 1));
  for (int64_t k = 0; k < 4; ++k) {
    main.push_back(Instruction("part", "get-tuple-element", part, 21 + k, {20}).Int(13, k));
  }
  main.push_back(Instruction("joined", "concatenate", whole, 25, {21, 22, 23, 24}).Ints(14, {0}));
  main.push_back(Instruction("sum", "add", whole, 26, {25, 1}));
  return Module({fused, Computation("main", 2, main, 26)}, 2)
      .Sub(7, ScheduleProto({{2, {1, 10, 11, 12, 13, 20, 21, 22, 23, 24, 25, 26}}}))
      .str();
}

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_HLO_CUT_MODULE_H_
