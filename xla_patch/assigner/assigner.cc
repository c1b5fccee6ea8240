#include "xla_patch/assigner/assigner.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "xla_patch/assigner/decision_trace.h"
#include "xla_patch/assigner/model_rule.h"
#include "xla_patch/assigner/tuned_rule.h"

namespace xla_shmem {
namespace {

std::string Plural(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : (noun.back() == 's' ? "es" : "s"));
}

std::string DescribeGroups(const CollectiveSpec& spec) {
  if (spec.op == CollectiveOp::kCollectivePermute) {
    return "all " + Plural(static_cast<int64_t>(spec.pairs.size()), "pair");
  }
  return spec.groups.size() == 1 ? "the group of " + std::to_string(spec.groups.devices.size())
                                 : "all " + Plural(spec.groups.size(), "group");
}

// Two devices of one group or pair that differ in `field`, or {-1, -1}.
std::pair<int64_t, int64_t> FindSplit(const CollectiveSpec& spec, const Topology& topology,
                                      int32_t DeviceLocation::* field) {
  const auto differ = [&](int64_t a, int64_t b) { return topology.Find(a)->*field != topology.Find(b)->*field; };
  for (const auto& [source, target] : spec.pairs) {
    if (differ(source, target)) return {source, target};
  }
  for (int64_t group = 0; group < spec.groups.size(); ++group) {
    const int64_t first = spec.groups.offsets[group];
    for (int64_t i = first + 1; i < spec.groups.offsets[group + 1]; ++i) {
      if (differ(spec.groups.devices[first], spec.groups.devices[i])) {
        return {spec.groups.devices[first], spec.groups.devices[i]};
      }
    }
  }
  return {-1, -1};
}

// The first device that the topology lacks, or -1.
int64_t FindUnknownDevice(const CollectiveSpec& spec, const Topology& topology) {
  for (const int64_t device : spec.groups.devices) {
    if (topology.Find(device) == nullptr) return device;
  }
  for (const auto& [source, target] : spec.pairs) {
    if (topology.Find(source) == nullptr) return source;
    if (topology.Find(target) == nullptr) return target;
  }
  return -1;
}

// "devices 0 and 4 lie in NVLink domains 0 and 1"
std::string DescribeSplit(const Topology& topology, int64_t a, int64_t b, const char* places,
                          int32_t DeviceLocation::* field) {
  return "devices " + std::to_string(a) + " and " + std::to_string(b) + " lie in " + places + " " +
         std::to_string(topology.Find(a)->*field) + " and " + std::to_string(topology.Find(b)->*field);
}

Decision PlaceByDomain(const CollectiveSpec& spec, const Topology& topology, DecisionTrace* trace) {
  const auto [a, b] = FindSplit(spec, topology, &DeviceLocation::nvlink_domain);
  Decision decision = {Backend::kNvshmem, "group-in-domain", ""};
  if (a >= 0) {
    decision = {Backend::kDefault, "group-across-domains",
                DescribeSplit(topology, a, b, "NVLink domains", &DeviceLocation::nvlink_domain)};
  } else {
    decision.reason = DescribeGroups(spec) + " within one NVLink domain each";
  }
  Note(trace, "group-in-domain", a < 0 ? Verdict::kNvshmem : Verdict::kDefault, [&] { return decision.reason; });
  return decision;
}

Decision PlaceAsPublished(const CollectiveSpec& spec, const Topology& topology, DecisionTrace* trace) {
  const int64_t per_process = topology.max_devices_per_process();
  if (per_process == 1) {
    Decision decision = {Backend::kNvshmem, "single-device",
                         "one device per process (" + Plural(topology.num_processes(), "process") + ")"};
    Note(trace, "single-device", Verdict::kNvshmem, [&] { return decision.reason; });
    return decision;
  }
  Note(trace, "single-device", Verdict::kPassed, [&] {
    return "up to " + std::to_string(per_process) + " devices per process (" +
           Plural(topology.num_processes(), "process") + ")";
  });
  const auto [a, b] = FindSplit(spec, topology, &DeviceLocation::process);
  if (a < 0) {
    Decision decision = {
        Backend::kNvshmem, "single-partition",
        DescribeGroups(spec) + " within one process each (" + std::to_string(per_process) + " devices per process)"};
    Note(trace, "single-partition", Verdict::kNvshmem, [&] { return decision.reason; });
    return decision;
  }
  const auto split = [&, from = a, to = b] {
    return DescribeSplit(topology, from, to, "processes", &DeviceLocation::process);
  };
  Note(trace, "single-partition", Verdict::kPassed, split);
  const std::string devices = "the module's " + Plural(spec.module.num_devices, "device");
  if (spec.module.num_nvlink_domains == 1) {
    Decision decision = {Backend::kNvshmem, "nvlink-domain", devices + " fit in one NVLink domain"};
    Note(trace, "nvlink-domain", Verdict::kNvshmem, [&] { return decision.reason; });
    return decision;
  }
  std::string span = devices + " span " + Plural(spec.module.num_nvlink_domains, "NVLink domain");
  Note(trace, "nvlink-domain", Verdict::kDefault, [&] { return span; });
  return {Backend::kDefault, "no-placement",
          split() + " (" + std::to_string(per_process) + " devices per process), and " + span};
}

// A result must be smaller than this.
struct SizeLimit {
  int64_t bytes;
  const char* name;
};

// "16.0 MiB" twice would hide which side is larger, so add the bytes where rounding makes them look equal.
std::string CompareBytes(int64_t bytes, const std::string& sign, const SizeLimit& limit) {
  std::string left = FormatBytes(bytes);
  std::string right = FormatBytes(limit.bytes);
  if (left == right && bytes != limit.bytes) {
    left += " (" + std::to_string(bytes) + " B)";
    right += " (" + std::to_string(limit.bytes) + " B)";
  }
  return left + " " + sign + " " + limit.name + " " + right;
}

// The options for an op; none if they do not consider it.
std::optional<ConsideredOp> FindConsidered(const CollectiveSpec& spec, const Options& options) {
  if (spec.unsupported_by_xla.has_value() || (options.ops.empty() && options.profile == Profile::kTuned)) {
    return ConsideredOp{spec.op, std::nullopt};
  }
  static const std::vector<ConsideredOp> published = {{CollectiveOp::kAllReduce, {}},
                                                      {CollectiveOp::kCollectivePermute, {}}};
  const std::vector<ConsideredOp>& ops = options.ops.empty() ? published : options.ops;
  const auto found = std::find_if(ops.begin(), ops.end(), [&](const ConsideredOp& one) { return one.op == spec.op; });
  return found == ops.end() ? std::nullopt : std::make_optional(*found);
}

std::optional<SizeLimit> LimitOf(const ConsideredOp& considered, const Options& options) {
  if (considered.limit.has_value()) return SizeLimit{*considered.limit, "XLA_SHMEM_OPS limit"};
  if (considered.op == CollectiveOp::kAllReduce && options.profile != Profile::kTuned &&
      options.threshold != kNoThreshold && !DecidesByModel(options)) {
    return SizeLimit{options.threshold, "threshold"};
  }
  return std::nullopt;
}

}  // namespace

const char* BackendName(Backend backend) {
  switch (backend) {
    case Backend::kNvshmem:
      return "NVSHMEM";
    case Backend::kHierarchical:
      return "HIERARCHICAL";
    case Backend::kDefault:
      break;
  }
  return "DEFAULT";
}

bool IsConsidered(const CollectiveSpec& spec, const Options& options) {
  return FindConsidered(spec, options).has_value();
}

Decision Decide(const CollectiveSpec& spec, const Topology& topology, const Options& options, DecisionTrace* trace) {
  const std::string op = OpName(spec.op);
  const std::optional<ConsideredOp> considered = FindConsidered(spec, options);
  const auto stay = [&](const char* rule, std::string reason) {
    Note(trace, rule, Verdict::kDefault, [&] { return reason; });
    return Decision{Backend::kDefault, rule, std::move(reason)};
  };
  if (!considered.has_value()) {
    return stay("unconsidered-op", options.ops.empty()
                                       ? op + " is not considered (only all-reduce and collective-permute are)"
                                       : op + " is not listed in XLA_SHMEM_OPS");
  }
  Note(trace, "unconsidered-op", Verdict::kPassed, [&] {
    if (spec.unsupported_by_xla.has_value()) return op + " need not be listed, as the default backend cannot run it";
    const bool all = options.profile == Profile::kTuned;
    return op + (!options.ops.empty() ? " is listed in XLA_SHMEM_OPS"
                                      : (all ? ", like any op" : " is one of the published two"));
  });
  if (spec.unsupported_participants.has_value()) return stay("unresolved-groups", *spec.unsupported_participants);
  Note(trace, "unresolved-groups", Verdict::kPassed, [&] { return DescribeGroups(spec); });
  const int64_t unknown = FindUnknownDevice(spec, topology);
  if (unknown >= 0) {
    return stay("unknown-device", "device " + std::to_string(unknown) + " is not among the " +
                                      Plural(topology.num_devices(), "device") + " of the topology");
  }
  Note(trace, "unknown-device", Verdict::kPassed,
       [&] { return "all are among its " + Plural(topology.num_devices(), "device"); });
  if (spec.unsupported_by_xla.has_value()) {
    Note(trace, "no-stock-thunk", Verdict::kNvshmem, [&] { return *spec.unsupported_by_xla; });
    return {Backend::kNvshmem, "no-stock-thunk", *spec.unsupported_by_xla};
  }
  Decision decision = options.profile == Profile::kUpstream ? PlaceAsPublished(spec, topology, trace)
                                                            : PlaceByDomain(spec, topology, trace);
  const std::optional<SizeLimit> limit = LimitOf(*considered, options);
  const bool is_too_large = limit.has_value() && spec.bytes >= limit->bytes;
  if (decision.backend == Backend::kDefault) {
    decision.crosses_domains = !is_too_large;
    return decision;
  }
  if (is_too_large) return stay("size", op + " of " + CompareBytes(spec.bytes, "≥", *limit));
  std::string size = op + " of " +
                     (limit.has_value() ? CompareBytes(spec.bytes, "<", *limit)
                                        : FormatBytes(spec.bytes) +
                                              (options.ops.empty() ? ", no size limit" : ": listed in XLA_SHMEM_OPS"));
  Note(trace, "size", Verdict::kPassed, [&] { return size; });
  if (options.profile == Profile::kTuned) {
    Decision by_times =
        DecideByTimes(spec, FindSplit(spec, topology, &DeviceLocation::process).first < 0, options, decision.reason);
    Note(trace, "tuned", by_times.backend == Backend::kNvshmem ? Verdict::kNvshmem : Verdict::kDefault,
         [&] { return by_times.reason; });
    return by_times;
  }
  if ((options.ways & BitOf(Way::kNvshmem)) == 0) {
    return stay("unlisted-backend", "nvshmem is not listed in XLA_SHMEM_BACKENDS");
  }
  decision.reason += "; " + size;
  if (!considered->limit.has_value() && DecidesByModel(options)) {
    return DecideByModel(spec, options, std::move(decision), trace);
  }
  decision.model = ExpectDefaultFaster(spec, options, trace);
  return decision;
}

}  // namespace xla_shmem
