#include "xla_patch/hlo/rewrite/aliased_parameters.h"

#include <doctest/doctest.h>

#include <set>
#include <unordered_map>
#include <vector>

#include "tests/hlo/decoded.h"
#include "tests/hlo/sample_modules.h"
#include "xla_patch/hlo/proto/schedule.h"

namespace xla_shmem {
namespace {

using namespace test;  // NOLINT: builders and decoders

PassOptions CopyingOptions() {
  PassOptions options = MakeOptions(Lowering::kGpu);
  options.copy_aliased_parameters = true;
  return options;
}

TEST_CASE("a donated parameter is read through a copy that has its id") {
  const std::string bytes = DonatingModule();
  const PassResult result = Run(bytes, CopyingOptions());
  const std::string_view copy = FindInstruction(result.module, "p1");
  const std::string_view parameter = FindInstruction(result.module, "p1.donated");
  CHECK(Only(copy, 2) == "copy");
  CHECK(Only(copy, 3) == ArrayShape({256}).str());
  CHECK(Fields(copy, 35)[0].value == 2);
  CHECK(Only(copy, 36) == "\x0c");
  CHECK(Only(parameter, 2) == "parameter");
  CHECK(Fields(parameter, 9)[0].value == 1);
  CHECK(Fields(parameter, 35)[0].value == 12);  // the highest so far was 11
  CHECK(FindInstruction(result.module, "p0") == FindInstruction(bytes, "p0"));
  CHECK(FindInstruction(result.module, "work") == FindInstruction(bytes, "work"));
  CHECK(Only(FindInstruction(result.module, "cp-start"), 28) == "xla_shmem.permute_start");
  CheckSettled(result, CopyingOptions());
}

TEST_CASE("the new parameter runs right before its copy, and stands there too") {
  const PassResult result = Run(DonatingModule(), CopyingOptions());
  const hlo::Schedule schedule(Only(result.module, 7));
  CHECK(schedule.Sequence(2) == std::vector<int64_t>{1, 12, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const std::string_view main = Fields(result.module, 3).back().bytes;
  const auto instructions = Fields(main, 2);
  CHECK(Only(instructions[1].bytes, 1) == "p1.donated");
  CHECK(Only(instructions[2].bytes, 1) == "p1");
}

TEST_CASE("other computations keep their schedule byte for byte") {
  hlo::ScheduleChange change;
  change.added = {{7, {70}}};
  change.removed = {8};
  const std::map<int64_t, hlo::ScheduleChange> changes = {{2, change}};
  const std::string schedule = ScheduleProto({{1, {7, 8}}, {2, {7, 8, 9}}}).str();
  CHECK(hlo::ChangeSchedule(schedule, changes) == ScheduleProto({{1, {7, 8}}, {2, {70, 7, 9}}}).str());
}

TEST_CASE("a schedule is complete if it has each instruction once") {
  hlo::Module module;
  module.instructions.resize(2);
  module.instructions[0].id = 7;
  module.instructions[1].id = 8;
  hlo::Computation computation;
  computation.id = 1;
  computation.last = 2;
  const auto is_complete = [&](const std::vector<int64_t>& ids) {
    const std::string proto = ScheduleProto({{1, ids}}).str();
    return hlo::IsComplete(hlo::Schedule(proto), module, computation);
  };
  CHECK(is_complete({8, 7}));
  CHECK_FALSE(is_complete({7}));
  CHECK_FALSE(is_complete({7, 7}));
  CHECK_FALSE(is_complete({7, 9}));
  module.instructions[1].id = 7;
  CHECK_FALSE(is_complete({7, 7}));
}

TEST_CASE("nothing is copied where XLA remembers, or nothing is donated") {
  const PassResult remembered = Run(DonatingModule(), MakeOptions(Lowering::kGpu));
  CHECK(Only(FindInstruction(remembered.module, "p1"), 2) == "parameter");
  const PassResult not_donated = Run(WrappedModule(), CopyingOptions());
  CHECK(not_donated.module == Run(WrappedModule(), MakeOptions(Lowering::kGpu)).module);
}

TEST_CASE("a module that would only gain attributes is not given back for a copy") {
  PassOptions options = CopyingOptions();
  options.transport = Transport();
  options.transport.unavailable_reason = "no NVSHMEM here";
  const PassResult result = Run(DonatingModule(), options);
  CHECK_FALSE(result.changed);
  REQUIRE(result.records.size() == 3);
  CHECK(result.records[0].veto == "no NVSHMEM here");
}

TEST_CASE("the parameter's new id is none that a divided collective's parts have got") {
  for (const Lowering lowering : {Lowering::kCpu, Lowering::kGpu}) {
    CAPTURE(lowering == Lowering::kGpu);
    PassOptions options = CopyingOptions();
    options.lowering = lowering;
    options.topology = *Topology::Create({{0, 0, 0, 0, 3}, {1, 1, 0, 0, 2}, {2, 2, 1, 1, 1}, {3, 3, 1, 1, 0}});
    const std::unordered_map<int64_t, int32_t> reach = {{0, 0}, {1, 0}, {2, 1}, {3, 1}};
    options.transport = lowering == Lowering::kGpu ? GpuTransport(reach) : CpuTransport(reach);
    options.assign.hierarchical = Hierarchical::kOn;
    const Message donated = Message().Ints(1, {}).Int(2, 0).Int(4, 2);
    const PassResult result = Run(SyncModule() + Message().Sub(8, Message().Sub(1, donated)).str(), options);
    CHECK(result.records.size() > 2);
    std::vector<int64_t> ids;
    for (const auto& instruction : Fields(Fields(result.module, 3).back().bytes, 2)) {
      ids.push_back(static_cast<int64_t>(Fields(instruction.bytes, 35)[0].value));
    }
    CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() == ids.size());
    CHECK(Only(FindInstruction(result.module, "p0.donated"), 2) == "parameter");
    CheckSettled(result, options);
  }
}

TEST_CASE("a part of a tuple parameter cannot be copied, and that is the veto") {
  const Message entry = Message().Ints(1, {0}).Int(2, 1).Ints(3, {0});
  const std::string bytes = WrappedModule() + Message().Sub(8, Message().Sub(1, entry)).str();
  const PassResult result = Run(bytes, CopyingOptions());
  CHECK_FALSE(result.changed);
  CHECK(result.records[0].backend == "NVSHMEM");
  CHECK(result.records[0].veto == "a result shares the buffer of a part of a tuple parameter");
}

}  // namespace
}  // namespace xla_shmem
