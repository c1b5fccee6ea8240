#ifndef XLA_SHMEM_TESTS_HLO_SAMPLE_MODULES_H_
#define XLA_SHMEM_TESTS_HLO_SAMPLE_MODULES_H_

#include <string>
#include <vector>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::test {

inline const std::vector<std::pair<int64_t, int64_t>> kRing = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};

// Fields that the pass does not own: metadata, control predecessors, sharding, frontend attributes of other tools, and
// a field of a later release.
inline Message WithExtras(Message instruction) {
  return instruction.Sub(7, Message().Bytes(2, "jit(f)/psum").Bytes(3, "/home/me/train.py").Int(4, 42))
      .Ints(37, {1})
      .Sub(40, Message().Int(1, 3))
      .Sub(68, Message().Sub(1, Message().Bytes(1, "mine").Bytes(2, "kept")))
      .Bytes(4321, "from the future");
}

// CPU at POST_SCHEDULER: a permute and an all-reduce, sync, with a schedule.
inline std::string SyncModule(int64_t elements = 1024) {
  const Message array = ArrayShape({elements});
  const Message main = Computation(
      "main", 2,
      {Instruction("p0", "parameter", array, 1),
       WithExtras(WithPairs(Instruction("permute.2", "collective-permute", array, 2, {1}), kRing)),
       WithExtras(WithGroups(Instruction("all-reduce.3", "all-reduce", array, 3, {2}), {{0, 1, 2, 3}}).Ints(38, {1})),
       Instruction("add.4", "add", array, 4, {3, 1})},
      4);
  return Module({ReductionComputation("add", 1), main}, 2)
      .Sub(7, Message().Sub(1, Message().Int(1, 2).Sub(2, Message().Ints(1, {1, 2, 3, 4}))))
      .Bytes(999, "module field from the future")
      .str();
}

// GPU at POST_SCHEDULER: start/done pairs, one of them combined.
inline std::string AsyncModule() {
  const Message array = ArrayShape({256});
  const Message pair = TupleShape({array, array});
  const Message context = Message().Int(2, 8);
  const std::string config = R"({"operation_queue_id":"0","collective_backend_config":{"is_sync":false}})";
  return Module(
             {ReductionComputation("add", 1),
              Computation(
                  "main", 2,
                  {Instruction("p0", "parameter", array, 1), Instruction("p1", "parameter", array, 2),
                   WithExtras(WithPairs(Instruction("cp-start", "collective-permute-start",
                                                    TupleShape({array, array, context}), 3, {1}),
                                        kRing))
                       .Bytes(43, config),
                   WithGroups(Instruction("ar-start", "all-reduce-start", pair, 4, {1, 2}), {{0, 1}, {2, 3}})
                       .Ints(38, {1})
                       .Bytes(43, config),
                   Instruction("cp-done", "collective-permute-done", array, 5, {3}),
                   Instruction("ar-done", "all-reduce-done", pair, 6, {4}),
                   WithPairs(Instruction("cp2-start", "collective-permute-start", TupleShape({pair, pair}), 7, {1, 2}),
                             kRing),
                   Instruction("cp2-done", "collective-permute-done", pair, 8, {7}),
                   Instruction("t", "tuple", TupleShape({array, pair, pair}), 9, {5, 6, 8})},
                  9)},
             2)
      .str();
}

// One of the two parts of a generic pair as XLA:GPU writes it.
inline Message AsyncStart(std::string_view name, const std::vector<Message>& operands, const Message& result,
                          int64_t id, const std::vector<int64_t>& operand_ids, int64_t computation) {
  return Instruction(name, "async-start", TupleShape({TupleShape(operands), result}), id, operand_ids)
      .Ints(38, {computation});
}
inline Message AsyncDone(std::string_view name, const Message& result, int64_t id, int64_t start) {
  return Instruction(name, "async-done", result, id, {start});
}

// The computation that an async-start calls: `op`, with id 9, on as many parameters (ids 1, 2, ...).
inline Message AsyncComputation(std::string_view name, int64_t id, const std::vector<Message>& operands,
                                const Message& op) {
  std::vector<Message> instructions;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    instructions.push_back(
        Instruction("param_" + std::to_string(i), "parameter", operands[i], number + 1).Int(9, number));
  }
  instructions.push_back(op);
  return Computation(name, id, instructions, 9);
}

// GPU at POST_SCHEDULER on newer releases: a permute with work beside it, a combined all-reduce in place with work
// beside it, and an all-reduce with none.
inline std::string WrappedModule() {
  const Message array = ArrayShape({256});
  const Message pair = TupleShape({array, array});
  const auto all_reduce = [&](const Message& shape, const std::vector<int64_t>& operands) {
    return WithGroups(Instruction("psum", "all-reduce", shape, 9, operands), {{0, 1}, {2, 3}}).Ints(38, {1});
  };
  const Message in_place = Message().Ints(1, {1});
  return Module(
             {ReductionComputation("add", 1),
              AsyncComputation("async_cp", 3, {array},
                               WithPairs(Instruction("ppermute", "collective-permute", array, 9, {1}), kRing)),
              AsyncComputation("async_ar", 4, {array, array}, all_reduce(pair, {1, 2})),
              AsyncComputation("async_ar1", 5, {array}, all_reduce(array, {1})),
              Computation("main", 2,
                          {Instruction("p0", "parameter", array, 1), Instruction("p1", "parameter", array, 2).Int(9, 1),
                           WithExtras(AsyncStart("cp-start", {array}, array, 3, {1}, 3)).Bytes(79, "collectives"),
                           AsyncStart("ar-start", {array, array}, pair, 4, {1, 2}, 4)
                               .Sub(74, Message().Ints(1, {1, 0}))
                               .Sub(74, Message().Ints(1, {1, 1}).Int(2, 1)),
                           Instruction("work", "add", array, 5, {1, 2}), AsyncDone("cp-done", array, 6, 3),
                           AsyncDone("ar-done", pair, 7, 4),
                           AsyncStart("ar1-start", {array}, array, 8, {5}, 5).Sub(74, in_place),
                           Instruction("first", "get-tuple-element", array, 9, {7}).Int(13, 0),
                           AsyncDone("ar1-done", array, 10, 8),
                           Instruction("t", "tuple", TupleShape({array, array, array}), 11, {6, 9, 10})},
                          11)},
             2)
      .Sub(7, ScheduleProto({{2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}}))
      .str();
}

// GPU at POST_SCHEDULER of jax 0.12.0.1: an all-reduce in a fusion in an async pair, and one in a fusion alone.
inline std::string FusedModule() {
  const Message array = ArrayShape({256});
  const auto all_reduce = [&](const char* name) {
    return WithGroups(Instruction(name, "all-reduce", array, 9, {1}), {{0, 1}, {2, 3}})
        .Ints(38, {1})
        .Bytes(43, R"({"collective_backend_config":{"kernel_strategy":"KERNEL_STRATEGY_TRITON_ONE_SHOT"}})");
  };
  const auto fusion = [&](const char* name, int64_t id, int64_t operand, int64_t computation) {
    return Instruction(name, "fusion", array, id, {operand}).Bytes(11, "kCustom").Ints(38, {computation});
  };
  return Module({ReductionComputation("add", 1), AsyncComputation("fused", 3, {array}, all_reduce("psum")),
                 AsyncComputation("async", 4, {array}, fusion("fusion", 9, 1, 3)),
                 AsyncComputation("fused.1", 5, {array}, all_reduce("psum.1")),
                 Computation("main", 2,
                             {Instruction("p0", "parameter", array, 1),
                              WithExtras(AsyncStart("fusion-start", {array}, array, 3, {1}, 4)),
                              AsyncDone("fusion-done", array, 4, 3), WithExtras(fusion("fusion.1", 5, 4, 5)),
                              Instruction("sum", "add", array, 6, {5, 4})},
                             6)},
                2)
      .Sub(7, ScheduleProto({{2, {1, 3, 4, 5, 6}}}))
      .str();
}

// The same with a donated parameter: result {0} may lie in parameter 1.
inline std::string DonatingModule() {
  const Message entry = Message().Ints(1, {0}).Int(2, 1).Int(4, 2);
  return WrappedModule() + Message().Sub(8, Message().Sub(1, entry)).str();
}

// A while with the backend config that XLA gives it.
inline Message WithTrips(Message loop, int64_t body, int64_t condition, const std::string& trips) {
  return loop.Ints(38, {body, condition}).Bytes(43, R"({"known_trip_count":{"n":")" + trips + R"("}})");
}

// A while loop whose body permutes, and an async-start around a reduce-scatter.
inline std::string NestedModule() {
  const Message array = ArrayShape({8});
  const Message body = Computation("body", 3,
                                   {Instruction("p", "parameter", array, 1),
                                    WithPairs(Instruction("permute.9", "collective-permute", array, 2, {1}), kRing)},
                                   2);
  const Message condition = Computation(
      "cond", 4, {Instruction("p", "parameter", array, 1), Instruction("c", "constant", Message().Int(2, 1), 2)}, 2);
  const Message wrapped = Computation(
      "async_rs", 5,
      {Instruction("p", "parameter", array, 1),
       WithGroups(Instruction("reduce-scatter.2", "reduce-scatter", ArrayShape({2}), 2, {1}), {{0, 1, 2, 3}})
           .Ints(38, {1})},
      2);
  const Message main = Computation(
      "main", 6,
      {Instruction("p", "parameter", array, 1), WithTrips(Instruction("w", "while", array, 2, {1}), 3, 4, "5"),
       Instruction("rs-start", "async-start", TupleShape({TupleShape({array}), ArrayShape({2})}), 3, {2}).Ints(38, {5}),
       Instruction("rs-done", "async-done", ArrayShape({2}), 4, {3}).Ints(38, {5})},
      4);
  return Module({ReductionComputation("add", 1), body, condition, wrapped, main}, 6).str();
}

// One of each op that is only looked at where it is listed, in forms that can be lowered.
inline std::string ListedModule() {
  const Message array = ArrayShape({8, 3});
  const Message whole = ArrayShape({32, 3});
  const Message four = TupleShape({array, array, array, array});
  const auto grouped = [](Message op) { return WithGroups(std::move(op), {{3, 2, 1, 0}}); };
  const auto by_partition = [](Message op) {
    return op.Sub(87, Message().Sub(1, Message().Ints(1, {3, 2, 1, 0}))).Int(26, 1);
  };
  return Module({ReductionComputation("xor", 1, 4),
                 Computation("main", 2,
                             {Instruction("p0", "parameter", array, 1),
                              grouped(Instruction("ag", "all-gather", whole, 2, {1})).Ints(14, {0}),
                              grouped(Instruction("rs", "reduce-scatter", array, 3, {2})).Ints(14, {0}).Ints(38, {1}),
                              by_partition(Instruction("one", "all-to-all", whole, 4, {2})).Ints(14, {0}),
                              by_partition(Instruction("four", "all-to-all", four, 5, {1, 3, 1, 3})),
                              by_partition(Instruction("cb", "collective-broadcast", whole, 6, {4})),
                              Instruction("t", "tuple", TupleShape({four, whole}), 7, {5, 6})},
                             7)},
                2)
      .Sub(7, ScheduleProto({{2, {1, 2, 3, 4, 5, 6, 7}}}))
      .str();
}

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_HLO_SAMPLE_MODULES_H_
