#include "xla_patch/assigner/hierarchical_rule.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "xla_patch/assigner/decision_trace.h"
#include "xla_patch/assigner/tuned_rule.h"

namespace xla_shmem {
namespace {

// Between hosts: one message of the default backend over TCP, and a link of 10 Gbit/s that the devices of a domain
// share. Within one: a call of ours, and the bytes that a device copies or reduces in a second.
constexpr double kMessageUs = 30;
constexpr double kLinkBytesPerUs = 1.25e3;
constexpr double kCallUs = 15;
constexpr double kMemoryBytesPerUs = 4e3;

// Far above any array, and small enough that sizes of parts do not overflow.
constexpr int64_t kMaxBytes = int64_t{1} << 48;

constexpr const char* kUnorderedDomains = "its groups do not list NVLink domain after NVLink domain";

// `messages` one after the other, and `bytes` that leave a domain.
double DefaultUs(double messages, double bytes) { return messages * kMessageUs + bytes / kLinkBytesPerUs; }
// `calls` one after the other, and `bytes` that each device moves.
double ShmemUs(double calls, double bytes) { return calls * kCallUs + bytes / kMemoryBytesPerUs; }

// What the parts on GPU, which move whole rows of parts, cannot do (hlo/rewrite/hierarchical_collective_on_gpu.h).
Unsupported UnsupportedOnGpu(const CollectiveSpec& spec, const Hierarchy& hierarchy) {
  const std::optional<GroupOrder> order = OrderOf(hierarchy);
  switch (hierarchy.division) {
    case Division::kAllGather:
    case Division::kReduceScatter:
      return order.has_value() ? std::nullopt : Unsupported(kUnorderedDomains);
    case Division::kAllToAll:
      if (spec.element_types.size() > 1) return "it has an array of its own for each member";
      return order == GroupOrder::kByDomain ? std::nullopt : Unsupported(kUnorderedDomains);
    case Division::kBroadcast:
      return hierarchy.local_size < 2 ? Unsupported(kAloneInDomain) : std::nullopt;
    case Division::kAllReduce:
    case Division::kPermute:
      break;
  }
  return std::nullopt;
}

}  // namespace

HierarchicalTimes ExpectHierarchicalTimes(const CollectiveSpec& spec, const Hierarchy& hierarchy) {
  const auto domains = static_cast<double>(hierarchy.num_domains);
  const auto local = static_cast<double>(std::max<int64_t>(hierarchy.local_size, 1));
  const double members = domains * local;
  // All bytes of a device: the result, or the operand of a reduce-scatter.
  const double bytes = static_cast<double>(spec.bytes) * (spec.op == CollectiveOp::kReduceScatter ? members : 1);
  const double part = bytes / members;
  switch (hierarchy.division) {
    case Division::kAllReduce:  // rings
      return {DefaultUs(2 * (members - 1), 2 * (members - 1) * part),
              DefaultUs(2 * (domains - 1), 2 * (domains - 1) * part * local) + ShmemUs(2, 2 * bytes)};
    case Division::kAllGather:
      return {DefaultUs(members - 1, (members - 1) * part),
              DefaultUs(domains - 1, (domains - 1) * part * local) + ShmemUs(1, bytes)};
    case Division::kReduceScatter:
      return {DefaultUs(members - 1, (members - 1) * part),
              DefaultUs(domains - 1, (domains - 1) * part * local) + ShmemUs(2, bytes + domains * part)};
    case Division::kAllToAll: {
      // The same bytes cross in both. What changes is the number of messages.
      const double leaving = (members - local) * part * local;
      return {DefaultUs(members - 1, leaving), DefaultUs(domains - 1, leaving) + ShmemUs(2, 2 * bytes)};
    }
    case Division::kPermute:
    case Division::kBroadcast:
      break;
  }
  // Permutes: pairs within a domain leave TCP, the others stay. Broadcasts run in no other way.
  return {DefaultUs(2, 2 * bytes), DefaultUs(1, bytes) + ShmemUs(1, bytes)};
}

HierarchicalDecision DecideHierarchical(const CollectiveSpec& spec, const Topology& topology, const Options& options,
                                        const Transport& transport, const Unsupported& form) {
  const auto whole = [](std::string reason) { return HierarchicalDecision{std::nullopt, std::move(reason)}; };
  if (options.hierarchical == Hierarchical::kOff) return whole("XLA_SHMEM_HIERARCHICAL is off");
  if (const Unsupported unsupported = UnsupportedKind(spec, transport); unsupported.has_value()) {
    return whole(*unsupported);
  }
  if (transport.divides == Divides::kNothing) return whole("this transport carries no parts of collectives");
  const bool on_request = transport.divides == Divides::kOnRequest;
  if (on_request && options.hierarchical != Hierarchical::kOn) {
    return whole("XLA_SHMEM_HIERARCHICAL is auto, which divides nothing on GPU");
  }
  if (form.has_value()) return whole(*form);
  if (spec.is_fused) return whole("it is in a fusion");
  if (spec.module.has_replicas_and_partitions) return whole("the module has both replicas and partitions");
  if (IsReducing(spec.op) && std::adjacent_find(spec.element_types.begin(), spec.element_types.end(),
                                                std::not_equal_to<>()) != spec.element_types.end()) {
    return whole("its operands have several element types");
  }
  if (spec.bytes > kMaxBytes) return whole("it has more than " + FormatBytes(kMaxBytes));
  Result<Hierarchy> hierarchy = DivideByDomain(spec, topology);
  if (!hierarchy.ok()) return whole(hierarchy.message());
  CollectiveSpec local = spec;
  local.groups = hierarchy->local;
  local.pairs = hierarchy->local_pairs;
  if (Unsupported unsupported = UnsupportedByTransport(local, topology, transport); unsupported.has_value()) {
    return whole(*std::move(unsupported));
  }
  if (Unsupported unsupported = on_request ? UnsupportedOnGpu(spec, *hierarchy) : std::nullopt;
      unsupported.has_value()) {
    return whole(*std::move(unsupported));
  }
  std::string shape = std::to_string(hierarchy->num_domains) + " NVLink domains";
  if (hierarchy->local_size > 0) shape += " × " + std::to_string(hierarchy->local_size) + " devices";
  if (options.hierarchical == Hierarchical::kOn) {
    return {*std::move(hierarchy), shape + "; XLA_SHMEM_HIERARCHICAL is on"};
  }
  if (spec.unsupported_by_xla.has_value()) return {*std::move(hierarchy), shape + "; " + *spec.unsupported_by_xla};
  const bool is_tuned = options.profile == Profile::kTuned;
  if (is_tuned) {
    const auto measured = CompareMeasured(spec, hierarchy->num_domains, options.tuning);
    if (measured.has_value()) {
      std::string reason = shape + "; " + measured->reason;
      if (measured->faster != Faster::kNvshmem) return whole(std::move(reason));
      return {*std::move(hierarchy), std::move(reason)};
    }
  }
  const HierarchicalTimes times = ExpectHierarchicalTimes(spec, *hierarchy);
  std::string reason =
      shape + ": expected " + FormatTime(times.divided_us) + " divided, " + FormatTime(times.whole_us) + " whole";
  if (is_tuned) reason += std::string("; the tuning table has no ") + OpName(spec.op) + " over several NVLink domains";
  if (times.divided_us >= times.whole_us) return whole(std::move(reason));
  return {*std::move(hierarchy), std::move(reason)};
}

}  // namespace xla_shmem
