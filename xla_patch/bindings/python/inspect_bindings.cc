#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/hlo/analysis/inspect.h"
#include "xla_patch/hlo/analysis/timeline.h"
#include "xla_patch/hlo/proto/module_header.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

const char* KindName(hlo::WorkKind kind) {
  switch (kind) {
    case hlo::WorkKind::kFree:
      return "other";
    case hlo::WorkKind::kControl:
      return "control";
    case hlo::WorkKind::kCollective:
      return "collective";
    case hlo::WorkKind::kCompute:
      return "compute";
  }
  return "other";
}

nb::dict ToDict(const ScheduledInstruction& instruction) {
  nb::list called;
  for (const std::string_view computation : instruction.called) called.append(Text(computation));
  nb::dict dict;
  dict["name"] = Text(instruction.name);
  dict["opcode"] = Text(instruction.opcode);
  dict["category"] = KindName(instruction.kind);
  dict["called"] = called;
  dict["flops"] = KnownCount(instruction.flops);
  dict["bytes"] = KnownCount(instruction.bytes);
  dict["fused_attention"] = instruction.is_fused_attention;
  dict["start"] = instruction.start.empty() ? nb::none() : Text(instruction.start);
  dict["collective"] = instruction.kind == hlo::WorkKind::kCollective;
  return dict;
}

nb::dict ToDict(const ComputationSchedule& schedule) {
  nb::list instructions;
  for (const ScheduledInstruction& instruction : schedule.instructions) instructions.append(ToDict(instruction));
  nb::dict dict;
  dict["name"] = Text(schedule.name);
  dict["executions"] = KnownCount(schedule.executions);
  dict["in_loop"] = schedule.in_loop;
  dict["scheduled"] = schedule.is_scheduled;
  dict["instructions"] = instructions;
  return dict;
}

nb::list InspectBytes(const nb::bytes& module) {
  return RecordList(WithoutGil([&] { return InspectModule(View(module)); }));
}

nb::dict ToDict(const Explanation& explanation) {
  nb::list steps;
  for (const RuleStep& step : explanation.trace) {
    nb::dict dict;
    dict["rule"] = Text(step.rule);
    dict["question"] = Text(step.question);
    dict["evidence"] = Text(step.evidence);
    dict["verdict"] = VerdictName(step.verdict);
    steps.append(dict);
  }
  nb::list groups;
  for (int64_t i = 0; i < explanation.groups.size(); ++i) {
    const auto first = explanation.groups.devices.begin();
    groups.append(nb::cast(
        std::vector<int64_t>(first + explanation.groups.offsets[i], first + explanation.groups.offsets[i + 1])));
  }
  nb::dict dict;
  dict["written"] = RecordDict(explanation.written);
  dict["decided"] = RecordDict(explanation.decided);
  dict["trace"] = steps;
  dict["groups"] = groups;
  dict["pairs"] = nb::cast(explanation.pairs);
  dict["shape"] = Text(explanation.shape);
  return dict;
}

nb::list ExplainBytes(const nb::bytes& module, const Topology& topology, const Transport& transport,
                      const std::string& profile, int64_t threshold, const OpList& ops, const TuningTable* tuning,
                      const std::string& lowering, const std::string& gpu, const std::string& hierarchical,
                      const WayList& backends, const WayList& settable) {
  const PassOptions options = MakePassOptions(topology, transport, profile, threshold, ops, tuning, lowering, gpu,
                                              hierarchical, backends, settable);
  nb::list list;
  for (const Explanation& explanation : WithoutGil([&] { return ExplainModule(View(module), options); })) {
    list.append(ToDict(explanation));
  }
  return list;
}

nb::list ScheduleOfBytes(const nb::bytes& module) {
  nb::list list;
  for (const ComputationSchedule& schedule : WithoutGil([&] { return ReadTimeline(View(module)); })) {
    list.append(ToDict(schedule));
  }
  return list;
}

nb::bytes ToBytes(std::string_view bytes) { return nb::bytes(bytes.data(), bytes.size()); }

nb::bytes UnwrapBytes(const nb::bytes& data) {
  return ToBytes(WithoutGil([&] { return hlo::UnwrapModule(View(data)); }));
}

nb::dict HeaderOfBytes(const nb::bytes& module) {
  const hlo::ModuleHeader header = WithoutGil([&] { return hlo::ReadModuleHeader(View(module)); });
  std::vector<int64_t> devices = header.assignment.devices();
  std::sort(devices.begin(), devices.end());
  nb::dict dict;
  dict["name"] = Text(header.name);
  dict["replicas"] = header.assignment.replica_count();
  dict["partitions"] = header.assignment.partition_count();
  dict["devices"] = nb::cast(devices);
  dict["is_gpu_form"] = header.is_gpu_form;
  dict["awaits_partitioning"] = header.awaits_partitioning;
  return dict;
}

nb::bytes AddDefaultAssignment(const nb::bytes& module, int64_t replicas, int64_t partitions) {
  return ToBytes(WithoutGil([&] { return hlo::WithDefaultAssignment(View(module), replicas, partitions); }));
}

}  // namespace

void BindInspection(nb::module_& m) {
  m.def("unwrap_module", &UnwrapBytes, nb::arg("data"),
        "Returns the serialised HloModuleProto in data: data itself, or the module in an HloProto or HloSnapshot. "
        "ValueError if there is none.");

  m.def("module_header", &HeaderOfBytes, nb::arg("module"),
        "Reads name, device assignment and form of a serialised HloModuleProto: a dict name, replicas, partitions, "
        "devices, is_gpu_form, awaits_partitioning. ValueError if a top-level field or the device assignment is "
        "malformed.");

  m.def("with_default_assignment", &AddDefaultAssignment, nb::arg("module"), nb::arg("replicas"), nb::arg("partitions"),
        "Adds XLA's default device assignment to a serialised HloModuleProto that has none. ValueError for too many "
        "devices, or none.");

  m.def("inspect_module", &InspectBytes, nb::arg("module"),
        "Lists the collectives of a serialised HloModuleProto with what this pass or stock XLA recorded about them; "
        "dicts as in "
        "PassResult.records. ValueError if the bytes are not a well-formed module.");

  m.def("explain_module", &ExplainBytes, nb::arg("module"), nb::arg("topology"), nb::arg("transport"), nb::kw_only(),
        nb::arg("profile") = "upstream", nb::arg("threshold") = kDefaultThresholdBytes, nb::arg("ops") = OpList(),
        nb::arg("tuning") = nb::none(), nb::arg("lowering") = "cpu", nb::arg("gpu") = "",
        nb::arg("hierarchical") = "auto", nb::arg("backends") = WayList(), nb::arg("settable") = WayList(),
        "What the module says of each of its collectives, what the rules say with these options, and what each rule "
        "saw: dicts written, decided, trace, groups, pairs, shape, in the order of inspect_module. Arguments and "
        "errors as "
        "of run_pass.");

  m.def("schedule", &ScheduleOfBytes, nb::arg("module"),
        "The order in which the instructions of a serialised HloModuleProto run, by computation, with the work that "
        "one execution of each takes: dicts name, executions, in_loop, scheduled, instructions. ValueError if the "
        "bytes are not a well-formed module.");
}

}  // namespace xla_shmem
