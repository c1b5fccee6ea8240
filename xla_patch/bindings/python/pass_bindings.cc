#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "xla_patch/bindings/python/bindings.h"
#include "xla_patch/hlo/rewrite/pass.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

using DeviceTuple = std::tuple<int64_t, int32_t, int32_t, int32_t, int32_t>;
using Reach = std::unordered_map<int64_t, int32_t>;

Profile ParseProfile(const std::string& name) {
  if (name == "upstream") return Profile::kUpstream;
  if (name == "domain") return Profile::kDomain;
  if (name == "tuned") return Profile::kTuned;
  throw nb::value_error(("unknown profile \"" + name + "\": use \"upstream\", \"domain\" or \"tuned\"").c_str());
}

Hierarchical ParseHierarchical(const std::string& name) {
  if (name == "auto") return Hierarchical::kAuto;
  if (name == "on") return Hierarchical::kOn;
  if (name == "off") return Hierarchical::kOff;
  throw nb::value_error(("unknown choice \"" + name + "\": use \"auto\", \"on\" or \"off\"").c_str());
}

Lowering ParseLowering(const std::string& name) {
  if (name == "none") return Lowering::kNone;
  if (name == "cpu") return Lowering::kCpu;
  if (name == "gpu") return Lowering::kGpu;
  throw nb::value_error(("unknown lowering \"" + name + "\": use \"none\", \"cpu\" or \"gpu\"").c_str());
}

std::vector<ConsideredOp> ParseOps(const OpList& ops) {
  std::vector<ConsideredOp> considered;
  for (const auto& [name, limit] : ops) {
    const CollectiveOp op = ParseOp(name);
    if (limit.has_value() && *limit < 0) {
      throw nb::value_error(("limit of " + std::to_string(*limit) + " bytes for " + name + " is negative").c_str());
    }
    considered.push_back({op, limit});
  }
  return considered;
}

Topology MakeTopology(const std::vector<DeviceTuple>& devices) {
  std::vector<DeviceLocation> locations;
  locations.reserve(devices.size());
  for (const auto& [device_id, process, host, nvlink_domain, pe] : devices) {
    locations.push_back({device_id, process, host, nvlink_domain, pe});
  }
  return ValueOrThrow(Topology::Create(std::move(locations)));
}

Transport MakeTransport(bool available, std::string reason, std::optional<Reach> reach) {
  Transport transport = CpuTransport(std::move(reach));
  transport.available = available;
  transport.unavailable_reason = std::move(reason);
  return transport;
}

PassResult RunOnBytes(const nb::bytes& module, const Topology& topology, const Transport& transport,
                      const std::string& profile, int64_t threshold, const OpList& ops, const TuningTable* tuning,
                      const std::string& lowering, const std::string& gpu, const std::string& hierarchical,
                      const WayList& backends, const WayList& settable, bool one_at_a_time,
                      bool mark_default_collectives, bool marks_keep_aliasing) {
  PassOptions options = MakePassOptions(topology, transport, profile, threshold, ops, tuning, lowering, gpu,
                                        hierarchical, backends, settable);
  options.one_at_a_time = one_at_a_time;
  options.mark_default_collectives = mark_default_collectives;
  options.marks_keep_aliasing = marks_keep_aliasing;
  return WithoutGil([&] { return RunPass(View(module), options); });
}

const char* NameOf(ShapeRule rule) {
  switch (rule) {
    case ShapeRule::kSame:
      return "same";
    case ShapeRule::kGathered:
      return "gathered";
    case ShapeRule::kScattered:
      return "scattered";
    case ShapeRule::kExchanged:
      return "exchanged";
    case ShapeRule::kRagged:
      break;
  }
  return "ragged";
}

nb::list CollectiveOps() {
  nb::list ops;
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    nb::dict op;
    op["name"] = info.name;
    op["short_name"] = info.short_name;
    op["reduces"] = IsReducing(info.op);
    op["shapes"] = NameOf(info.shapes);
    op["on_cpu"] = info.Has(op_trait::kOnCpu);
    op["on_gpu"] = info.Has(op_trait::kOnGpu);
    op["targets"] = nb::make_tuple(info.target, info.start_target, info.done_target);
    ops.append(op);
  }
  return ops;
}

void BindTopology(nb::module_& m) {
  nb::class_<Topology>(m, "Topology",
                       "The process, host, NVLink domain and PE of each device of the job. The same on every rank.")
      .def(
          "__init__",
          [](Topology* self, const std::vector<DeviceTuple>& devices) { new (self) Topology(MakeTopology(devices)); },
          nb::arg("devices"),
          "From tuples (device_id, process, host, nvlink_domain, pe). ValueError if a device id or a PE occurs twice "
          "or a number is negative.")
      .def_prop_ro("num_devices", &Topology::num_devices, "Number of devices of the job.")
      .def_prop_ro(
          "fingerprint", [](const Topology& self) { return static_cast<int64_t>(self.Fingerprint()); },
          "Signed 64-bit hash over all devices; equal topologies have equal ones, on every rank and in every run.")
      .def_prop_ro(
          "devices",
          [](const Topology& self) {
            std::vector<DeviceTuple> devices;
            for (const DeviceLocation& device : self.devices()) {
              devices.emplace_back(device.device_id, device.process, device.host, device.nvlink_domain, device.pe);
            }
            return devices;
          },
          "Tuples (device_id, process, host, nvlink_domain, pe), sorted by device id.");
}

void BindTransport(nb::module_& m) {
  nb::class_<Transport>(m, "Transport", "What the SHMEM runtime of this job supports.")
      .def(
          "__init__",
          [](Transport* self, bool available, std::string reason, std::optional<Reach> reach) {
            new (self) Transport(MakeTransport(available, std::move(reason), std::move(reach)));
          },
          nb::arg("available"), nb::arg("reason") = "", nb::arg("reach") = nb::none(),
          "reason: why it is not available. reach: device id -> domain. Devices of one domain reach each other, a "
          "missing device reaches no other. None: all reach all.")
      .def_ro("available", &Transport::available, "False: every decision for NVSHMEM is vetoed with the reason.")
      .def_ro("reason", &Transport::unavailable_reason, "Why it is not available.");
  m.def("gpu_transport", &GpuTransport, nb::arg("reach"),
        "Transport between GPUs. `reach`: device id -> number; devices of equal number reach each other.");
  m.def("cpu_transport", &CpuTransport, nb::arg("reach"),
        "Shared memory between the devices of one host. reach: device id -> domain.");
}

void BindRunPass(nb::module_& m) {
  nb::class_<PassResult>(m, "PassResult", "The result of run_pass.")
      .def_prop_ro(
          "module",
          [](const PassResult& self) -> nb::object {
            if (!self.changed) return nb::none();
            return nb::bytes(self.module.data(), self.module.size());
          },
          "The rewritten HloModuleProto, or None if nothing changes.")
      .def_prop_ro(
          "records", [](const PassResult& self) { return RecordList(self.records); },
          "One dict per collective: name, op, dtype, bytes, group_size, num_groups, num_pairs, reduction, backend, "
          "lowered, veto, rule, reason, chosen_way, model, computation, in_loop, executions, source_file, source_line, "
          "part_of, "
          "num_domains; and what XLA:GPU wrote about those that it runs: kernel, mode, is_sync, operand_space, "
          "result_space.");

  m.def("run_pass", &RunOnBytes, nb::arg("module"), nb::arg("topology"), nb::arg("transport"), nb::kw_only(),
        nb::arg("profile") = "upstream", nb::arg("threshold") = kDefaultThresholdBytes, nb::arg("ops") = OpList(),
        nb::arg("tuning") = nb::none(), nb::arg("lowering") = "cpu", nb::arg("gpu") = "",
        nb::arg("hierarchical") = "auto", nb::arg("backends") = WayList(), nb::arg("settable") = WayList(),
        nb::arg("one_at_a_time") = false, nb::arg("mark_default_collectives") = false,
        nb::arg("marks_keep_aliasing") = false,
        "Decides for every collective of a serialised, scheduled HloModuleProto and rewrites it in place. profile: "
        "\"upstream\", \"domain\" or \"tuned\". threshold: bytes; all-reduces of that size and more stay with XLA; "
        "2^63-1 for none. ops: (op, limit in bytes or None) of each op to consider; if empty, all-reduce and "
        "collective-permute, and all ops with \"tuned\". tuning: the table of \"tuned\"; None: an empty one. lowering: "
        "\"cpu\", \"gpu\" or \"none\" (attributes only). gpu: \"hopper\" or \"blackwell\" for the cost model, \"\" for "
        "none. hierarchical: \"auto\", \"on\" or \"off\": whether collectives that cross NVLink domains are divided. "
        "backends: words of XLA_SHMEM_BACKENDS that may be chosen; if empty, all. settable: those that the pass can "
        "choose for one collective in this release of XLA, besides \"nvshmem\". "
        "one_at_a_time: for XLA:CPU, whether each collective waits for the one scheduled before it. "
        "mark_default_collectives: for XLA:CPU, whether calls record those that stay on the default backend. "
        "marks_keep_aliasing: not in a module that would lose the aliasing of its parameters only for them. "
        "ValueError if the bytes are not a well-formed module.");
}

}  // namespace

GpuGeneration ParseGpu(const std::string& name) {
  const std::optional<GpuGeneration> gpu = GpuGenerationNamed(name);
  if (!gpu.has_value()) {
    throw nb::value_error(("unknown GPU \"" + name + "\": use \"hopper\", \"blackwell\" or \"\"").c_str());
  }
  return *gpu;
}

Ways ParseWays(const WayList& words) {
  Ways ways = 0;
  for (const std::string& word : words) {
    const std::optional<Way> way = WayOfWord(word);
    if (!way.has_value()) throw nb::value_error(("unknown backend \"" + word + "\"").c_str());
    ways |= BitOf(*way);
  }
  return ways;
}

CollectiveOp ParseOp(const std::string& name) {
  const std::optional<CollectiveOp> op = OpNamed(name);
  if (!op.has_value()) throw nb::value_error(("unknown op \"" + name + "\"").c_str());
  return *op;
}

PassOptions MakePassOptions(const Topology& topology, const Transport& transport, const std::string& profile,
                            int64_t threshold, const OpList& ops, const TuningTable* tuning,
                            const std::string& lowering, const std::string& gpu, const std::string& hierarchical,
                            const WayList& backends, const WayList& settable) {
  if (threshold < 0) {
    throw nb::value_error(("threshold of " + std::to_string(threshold) + " bytes is negative").c_str());
  }
  return {{ParseProfile(profile), threshold, ParseOps(ops), tuning == nullptr ? TuningTable() : *tuning, ParseGpu(gpu),
           ParseHierarchical(hierarchical), backends.empty() ? kEveryWay : ParseWays(backends),
           ParseWays(settable) | BitOf(Way::kNvshmem)},
          topology,
          transport,
          ParseLowering(lowering)};
}

std::string_view View(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::object Text(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::object KnownCount(int64_t count) { return count < 0 ? nb::object(nb::none()) : nb::object(nb::int_(count)); }

nb::dict RecordDict(const CollectiveRecord& record) {
  nb::dict dict;
  dict["name"] = Text(record.name);
  dict["op"] = Text(record.op);
  dict["dtype"] = Text(record.dtype);
  dict["bytes"] = record.bytes;
  dict["group_size"] = record.group_size;
  dict["num_groups"] = record.num_groups;
  dict["num_pairs"] = record.num_pairs;
  dict["reduction"] = Text(record.reduction);
  dict["backend"] = Text(record.backend);
  dict["lowered"] = Text(record.lowered);
  dict["veto"] = record.veto.empty() ? nb::none() : Text(record.veto);
  dict["rule"] = Text(record.rule);
  dict["reason"] = Text(record.reason);
  dict["chosen_way"] = record.way.empty() ? nb::none() : Text(record.way);
  dict["model"] = record.model.empty() ? nb::none() : Text(record.model);
  dict["computation"] = Text(record.computation);
  dict["in_loop"] = record.in_loop;
  dict["executions"] = KnownCount(record.executions);
  dict["source_file"] = record.source_file.empty() ? nb::none() : Text(record.source_file);
  dict["source_line"] = record.source_line;
  dict["part_of"] = record.part_of.empty() ? nb::none() : Text(record.part_of);
  dict["num_domains"] = record.num_domains;
  dict["kernel"] = record.xla.kernel.empty() ? nb::none() : Text(record.xla.kernel);
  dict["mode"] = record.xla.mode.empty() ? nb::none() : Text(record.xla.mode);
  dict["is_sync"] = record.xla.is_sync;
  dict["operand_space"] = record.xla.operand_space;
  dict["result_space"] = record.xla.result_space;
  return dict;
}

nb::list RecordList(const std::vector<CollectiveRecord>& records) {
  nb::list list;
  for (const CollectiveRecord& record : records) list.append(RecordDict(record));
  return list;
}

void BindPass(nb::module_& m) {
  BindTopology(m);
  BindTransport(m);
  BindRunPass(m);
  m.def("collective_ops", &CollectiveOps,
        "The table of collectives: dicts name, short_name, reduces, shapes, on_cpu, on_gpu, targets.");
}

}  // namespace xla_shmem
