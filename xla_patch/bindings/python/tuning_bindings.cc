#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/cost_model.h"
#include "xla_patch/assigner/tuned_rule.h"
#include "xla_patch/assigner/tuning.h"
#include "xla_patch/bindings/python/bindings.h"

namespace xla_shmem {
namespace {

namespace nb = nanobind;

// Median and the ends of its interval.
using TimeTuple = std::tuple<double, double, double>;
// op, dtype, group size, bytes; on NVSHMEM; on DEFAULT, none if it does not run it; NVLink domains of a group; in other
// ways.
using RowTuple = std::tuple<std::string, std::string, int64_t, int64_t, TimeTuple, std::optional<TimeTuple>, int64_t,
                            std::map<std::string, TimeTuple>>;

ElementType ParseDtype(const std::string& name) {
  const std::optional<ElementType> type = ElementTypeNamed(name);
  if (!type.has_value()) throw nb::value_error(("unknown dtype \"" + name + "\"").c_str());
  return *type;
}

BackendTime MakeTime(const TimeTuple& tuple) { return {std::get<0>(tuple), std::get<1>(tuple), std::get<2>(tuple)}; }

TuningTable MakeTable(const std::vector<RowTuple>& tuples) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<TuningRow> rows;
  rows.reserve(tuples.size());
  for (const auto& [op, dtype, group_size, bytes, nvshmem, on_default, domains, times] : tuples) {
    WayTimes ways;
    for (const auto& [word, time] : times) {
      const std::optional<Way> way = WayOfWord(word);
      if (!way.has_value()) throw nb::value_error(("unknown backend \"" + word + "\"").c_str());
      ways.emplace_back(*way, MakeTime(time));
    }
    rows.push_back({ParseOp(op), ParseDtype(dtype), group_size, bytes, MakeTime(nvshmem),
                    MakeTime(on_default.value_or(TimeTuple(kNever, kNever, kNever))), domains, std::move(ways)});
  }
  return ValueOrThrow(TuningTable::Create(std::move(rows)));
}

// A group of the first devices of a job with one device a process, in one NVLink domain.
CollectiveSpec SpecInOneDomain(CollectiveOp op, int64_t bytes, int64_t group_size, int64_t num_devices) {
  CollectiveSpec spec;
  spec.op = op;
  spec.bytes = bytes;
  spec.element_types = {ElementType::kF32};
  spec.module = {num_devices, 1};
  for (int64_t i = 0; i < group_size; ++i) {
    if (UsesPairs(op)) {
      spec.pairs.emplace_back(i, (i + 1) % group_size);
    } else {
      spec.groups.devices.push_back(i);
    }
  }
  if (!UsesPairs(op)) spec.groups.offsets.push_back(group_size);
  return spec;
}

// What the rules choose by a table. Where XLA may take a kernel of its own for the op, it does.
std::optional<std::string> FasterOf(const TuningTable& table, const std::string& op, const std::string& dtype,
                                    int64_t group_size, int64_t bytes, int64_t domains, const WayList& settable,
                                    bool in_one_process) {
  CollectiveSpec spec = SpecInOneDomain(ParseOp(op), bytes, group_size, group_size);
  spec.element_types = {ParseDtype(dtype)};
  if (domains > 1) {
    const std::optional<MeasuredComparison> found = CompareMeasured(spec, domains, table);
    if (!found.has_value()) return std::nullopt;
    if (found->faster == Faster::kNeither) return "neither";
    return BackendName(found->faster == Faster::kNvshmem ? Backend::kHierarchical : Backend::kDefault);
  }
  spec.is_fused = true;
  Options options;
  options.tuning = table;
  options.settable_ways = ParseWays(settable) | BitOf(Way::kNvshmem);
  const Decision decision = DecideByTimes(spec, in_one_process, options, "");
  if (decision.rule == "tuned-unmeasured") return std::nullopt;
  if (decision.rule == "tuned-tie") return "neither";
  return decision.way.has_value() ? InfoOf(*decision.way).name : BackendName(decision.backend);
}

std::optional<std::map<std::string, double>> TimesOf(const TuningTable& table, const std::string& op,
                                                     const std::string& dtype, int64_t group_size, int64_t bytes) {
  const std::optional<Estimate> found = table.Find(ParseOp(op), ParseDtype(dtype), group_size, bytes);
  if (!found.has_value()) return std::nullopt;
  std::map<std::string, double> times = {{BackendName(Backend::kNvshmem), found->nvshmem.us}};
  if (std::isfinite(found->on_default.us)) times[BackendName(Backend::kDefault)] = found->on_default.us;
  for (const auto& [way, time] : found->ways) times[InfoOf(way).name] = time.us;
  return times;
}

std::optional<std::pair<double, double>> ExpectedTimesOf(const std::string& op, int64_t bytes, int64_t group_size,
                                                         int64_t num_devices, const std::string& gpu) {
  const std::optional<ExpectedTimes> times = ExpectTimes(ParseOp(op), bytes, group_size, num_devices, ParseGpu(gpu));
  if (!times.has_value()) return std::nullopt;
  return std::make_pair(times->nvshmem_us, times->nccl_us);
}

using TimeAndShare = std::pair<double, double>;

std::optional<std::pair<TimeAndShare, TimeAndShare>> TransferTimes(const std::string& op, int64_t bytes,
                                                                   int64_t group_size, double nvlink_gb_per_s,
                                                                   double memory_gb_per_s, int64_t channels,
                                                                   double channel_gb_per_s) {
  const std::optional<ExpectedTimes> times = ExpectTimes(
      ParseOp(op), bytes, group_size, GpuLinks{nvlink_gb_per_s, memory_gb_per_s}, NcclSend{channels, channel_gb_per_s});
  if (!times.has_value()) return std::nullopt;
  return std::pair(TimeAndShare(times->nvshmem_us, times->nvshmem_share),
                   TimeAndShare(times->nccl_us, times->nccl_share));
}

std::optional<double> PlannedTime(const std::string& op, int64_t bytes, int64_t group_size, int64_t num_devices,
                                  const std::string& profile, int64_t threshold, const OpList& ops,
                                  const TuningTable* tuning, const std::string& gpu, const WayList& backends,
                                  const WayList& settable) {
  std::vector<DeviceLocation> devices;
  devices.reserve(num_devices);
  for (int32_t i = 0; i < static_cast<int32_t>(num_devices); ++i) devices.push_back({i, i, 0, 0, i});
  const Topology topology = ValueOrThrow(Topology::Create(std::move(devices)));
  const Options options =
      MakePassOptions(topology, {}, profile, threshold, ops, tuning, "none", gpu, "off", backends, settable).assign;
  const CollectiveSpec spec = SpecInOneDomain(ParseOp(op), bytes, group_size, num_devices);
  const Decision decision = Decide(spec, topology, options);
  const bool on_nvshmem = decision.backend == Backend::kNvshmem;
  if (const auto measured = options.tuning.Find(spec.op, ElementType::kF32, group_size, bytes); measured.has_value()) {
    for (const auto& [way, time] : measured->ways) {
      if (decision.way == way) return time.us;
    }
    return on_nvshmem ? measured->nvshmem.us : measured->on_default.us;
  }
  const std::optional<ExpectedTimes> times = ExpectTimes(spec.op, bytes, group_size, num_devices, options.gpu);
  if (!times.has_value()) return std::nullopt;
  return on_nvshmem ? times->nvshmem_us : times->nccl_us;
}

}  // namespace

void BindTuning(nb::module_& m) {
  nb::class_<TuningTable>(m, "TuningTable", "Times of collectives on both backends, for profile \"tuned\".")
      .def(
          "__init__",
          [](TuningTable* self, const std::vector<RowTuple>& rows) { new (self) TuningTable(MakeTable(rows)); },
          nb::arg("rows"),
          "From tuples (op, dtype, group_size, bytes, nvshmem, default, domains, ways), times as (median, low, high) "
          "in µs; "
          "default None: not run. ways: times by other words of XLA_SHMEM_BACKENDS. domains: NVLink domains that a "
          "group spans; if several, nvshmem is the time of the "
          "divided collective. ValueError if a name is unknown, a number is out of range, or a line occurs twice.")
      .def_prop_ro("num_rows", &TuningTable::num_rows, "Number of lines.")
      .def("faster", &FasterOf, nb::arg("op"), nb::arg("dtype"), nb::arg("group_size"), nb::arg("bytes"),
           nb::arg("domains") = 1, nb::kw_only(), nb::arg("settable") = WayList(), nb::arg("in_one_process") = false,
           "What the rules choose: \"NVSHMEM\" (\"HIERARCHICAL\" for several domains), \"DEFAULT\", the name of a way, "
           "\"neither\" (one median lies in the other's interval), or None if the op was not measured.")
      .def("times", &TimesOf, nb::arg("op"), nb::arg("dtype"), nb::arg("group_size"), nb::arg("bytes"),
           "Medians in µs by the name of backend or way, or None if the op was not measured.");

  m.def(
      "ways",
      [] {
        std::vector<std::pair<std::string, std::string>> ways;
        ways.reserve(std::size(kWays));
        for (const WayInfo& info : kWays) ways.emplace_back(info.word, info.name);
        return ways;
      },
      "The ways of running a collective on GPUs: (word of XLA_SHMEM_BACKENDS, name in reports).");
  m.def(
      "way_flags",
      [](const std::string& word, const std::string& op) {
        const std::optional<Way> way = WayOfWord(word);
        if (!way.has_value()) throw nb::value_error(("unknown backend \"" + word + "\"").c_str());
        return FlagsOf(*way, ParseOp(op));
      },
      nb::arg("word"), nb::arg("op"),
      "The flags of XLA that make all collectives of an op run in a way. ValueError for unknown names.");
  m.def(
      "gpu_generation", [](int major) { return GpuGenerationName(GpuGenerationOf(major)); }, nb::arg("major"),
      "\"hopper\" or \"blackwell\" for a compute capability, \"\" for one without a cost model.");
  m.def("expected_times", &ExpectedTimesOf, nb::arg("op"), nb::arg("bytes"), nb::arg("group_size"),
        nb::arg("num_devices"), nb::arg("gpu"),
        "Times in µs on NVSHMEM and NCCL by the cost model, or None without one. bytes: of the result. num_devices: of "
        "the module.");
  m.def(
      "planned_time", &PlannedTime, nb::arg("op"), nb::arg("bytes"), nb::arg("group_size"), nb::arg("num_devices"),
      nb::kw_only(), nb::arg("profile") = "upstream", nb::arg("threshold") = kDefaultThresholdBytes,
      nb::arg("ops") = OpList(), nb::arg("tuning") = nb::none(), nb::arg("gpu") = "", nb::arg("backends") = WayList(),
      nb::arg("settable") = WayList(),
      "Time in µs of an f32 collective in one NVLink domain on the backend that the rules choose: as measured, else by "
      "the cost model. None without either. Options as of run_pass.");
  m.attr("NCCL_CHANNELS") = kNcclChannels;
  m.attr("NCCL_LINK_SHARE") = kNcclLinkShare;
  m.def("nccl_send_channels", &NcclSendChannels, nb::arg("bytes"), nb::arg("num_devices"), nb::arg("most"),
        "Channels that NCCL takes for a send: of NCCL_CHANNELS in all, at most `most` for a peer.");
  m.def("transfer_times", &TransferTimes, nb::arg("op"), nb::arg("bytes"), nb::arg("group_size"), nb::kw_only(),
        nb::arg("nvlink_gb_per_s"), nb::arg("memory_gb_per_s"), nb::arg("channels"), nb::arg("channel_gb_per_s"),
        "The model of `expected_times` on described links, and for sends of so many channels: on NVSHMEM and on NCCL, "
        "µs and the share of NVLink's bandwidth; None for groups of one, or ops without a model.");
}

}  // namespace xla_shmem
