#include "xla_patch/hlo/analysis/timeline.h"

#include <doctest/doctest.h>

#include "tests/hlo/sample_modules.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders

std::vector<ComputationSchedule> Read(const std::string& module) {
  auto made = ReadTimeline(module);
  REQUIRE_MESSAGE(made.ok(), made.message());
  return *std::move(made);
}

std::vector<std::string_view> Names(const ComputationSchedule& schedule) {
  std::vector<std::string_view> names;
  for (const ScheduledInstruction& instruction : schedule.instructions) {
    names.push_back(instruction.name);
  }
  return names;
}

const ScheduledInstruction& Named(const ComputationSchedule& schedule, std::string_view name) {
  for (const ScheduledInstruction& instruction : schedule.instructions) {
    if (instruction.name == name) {
      return instruction;
    }
  }
  FAIL("no instruction " << name);
  return schedule.instructions[0];
}

using List = std::vector<std::string_view>;

TEST_CASE("loops are listed with their trips, wrappers and reductions are not") {
  const std::string module = NestedModule();
  const std::vector<ComputationSchedule> schedules = Read(module);
  REQUIRE(schedules.size() == 3);
  CHECK(schedules[0].name == "body");
  CHECK(schedules[0].executions == 5);
  CHECK(schedules[0].in_loop);
  CHECK(schedules[1].name == "cond");
  CHECK(schedules[1].executions == 6);
  CHECK(schedules[2].name == "main");
  CHECK(schedules[2].executions == 1);
  CHECK_FALSE(schedules[2].in_loop);
  CHECK(Named(schedules[2], "w").kind == hlo::WorkKind::kControl);
  CHECK(Named(schedules[2], "w").called == List{"body", "cond"});
  CHECK(Named(schedules[2], "rs-start").kind == hlo::WorkKind::kCollective);
  CHECK(Named(schedules[2], "rs-start").called.empty());
  CHECK(Named(schedules[2], "rs-done").start == "rs-start");
}

TEST_CASE("the scheduler's order goes before the module's") {
  const Message s = ArrayShape({});
  const auto module = [&](const Message& schedule) {
    return Module({Computation("main", 1,
                               {Instruction("p", "parameter", s, 1), Instruction("a", "negate", s, 2, {1}),
                                Instruction("b", "sine", s, 3, {1}), Instruction("c", "add", s, 4, {2, 3})},
                               4)},
                  1)
        .Sub(7, schedule)
        .str();
  };
  const std::string ordered = module(ScheduleProto({{1, {1, 3, 2, 2, 99, 4}}}));
  const std::string unordered = module(Message());
  CHECK(Names(Read(ordered)[0]) == List{"p", "b", "a", "c"});
  CHECK(Read(ordered)[0].is_scheduled);
  CHECK(Names(Read(unordered)[0]) == List{"p", "a", "b", "c"});
  CHECK_FALSE(Read(unordered)[0].is_scheduled);
}

TEST_CASE("a done knows its start, native, generic and lowered") {
  const std::string native = AsyncModule();
  CHECK(Named(Read(native)[0], "cp-done").start == "cp-start");
  CHECK(Named(Read(native)[0], "cp-start").bytes == 1024);
  CHECK(Named(Read(native)[0], "cp-done").bytes == 1024);
  const std::string wrapped = WrappedModule();
  const ComputationSchedule main = Read(wrapped).back();
  CHECK(Read(wrapped).size() == 1);
  CHECK(Named(main, "ar-done").start == "ar-start");
  CHECK(Named(main, "ar-done").kind == hlo::WorkKind::kCollective);
  CHECK(Named(main, "work").start.empty());
  const Message array = ArrayShape({256});
  const auto call = [&](std::string_view name, int64_t id, int64_t operand, std::string_view target) {
    return Instruction(name, "custom-call", array, id, {operand}).Bytes(28, target);
  };
  const std::string lowered =
      Module({Computation("main", 1,
                          {Instruction("p", "parameter", array, 1), call("s", 2, 1, "xla_shmem.permute_start"),
                           Instruction("work", "sine", array, 3, {1}), call("d", 4, 2, "xla_shmem.permute_done")},
                          4)},
             1)
          .str();
  CHECK(Named(Read(lowered)[0], "d").start == "s");
  CHECK(Named(Read(lowered)[0], "d").kind == hlo::WorkKind::kCollective);
  CHECK(Named(Read(lowered)[0], "s").flops == 0);
}

TEST_CASE("compute in an async wrapper counts where it starts") {
  const Message array = ArrayShape({256});
  const std::string module =
      Module({AsyncComputation("wrapped", 1, {array}, Instruction("sine", "sine", array, 9, {1})),
              Computation("main", 2,
                          {Instruction("p", "parameter", array, 1), AsyncStart("s", {array}, array, 2, {1}, 1),
                           AsyncDone("d", array, 3, 2)},
                          3)},
             2)
          .str();
  const std::vector<ComputationSchedule> schedules = Read(module);
  REQUIRE(schedules.size() == 1);
  CHECK(Named(schedules[0], "s").kind == hlo::WorkKind::kCompute);
  CHECK(Named(schedules[0], "s").flops == 256);
  CHECK(Named(schedules[0], "s").bytes == 2048);
  CHECK(Named(schedules[0], "d").flops == 0);
  CHECK(Named(schedules[0], "d").bytes == 0);
  CHECK(Named(schedules[0], "d").start == "s");
}

TEST_CASE("bytes that are no module are refused") { CHECK_FALSE(ReadTimeline("\xff").ok()); }

}  // namespace
}  // namespace xla_shmem
