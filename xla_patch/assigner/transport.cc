#include "xla_patch/assigner/transport.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace xla_shmem {
namespace {

std::string DescribeDevice(int64_t device_id, const Topology& topology) {
  const DeviceLocation* device = topology.Find(device_id);
  return "device " + std::to_string(device_id) +
         (device == nullptr ? ""
                            : " (PE " + std::to_string(device->pe) + ", host " + std::to_string(device->host) + ")");
}

Unsupported UnsupportedElementTypes(const CollectiveSpec& spec) {
  if (spec.element_types.empty()) return std::string(OpName(spec.op)) + " without a result";
  for (const ElementType type : spec.element_types) {
    const int32_t bits = ElementBits(type);
    if (bits == 0 || bits % 8 != 0) return ElementTypeName(type) + " has no whole-byte elements";
  }
  return std::nullopt;
}

Unsupported UnsupportedReduction(const CollectiveSpec& spec) {
  if (!spec.reduction.has_value()) return "the reduction is not a plain sum, prod, min, max, and, or or xor";
  for (const ElementType type : spec.element_types) {
    if (!Supports(type, ReductionKind::kSum)) {  // every type that has a reduction has this one
      return "no SHMEM " + std::string(OpName(spec.op)) + " for " + ElementTypeName(type);
    }
    if (!Supports(type, *spec.reduction)) {
      return "no SHMEM reduction \"" + std::string(ReductionName(spec.reduction)) + "\" for " + ElementTypeName(type);
    }
  }
  return std::nullopt;
}

Unsupported UnsupportedPairs(const CollectiveSpec& spec) {
  std::unordered_set<int64_t> sources;
  std::unordered_set<int64_t> targets;
  for (const auto& [source, target] : spec.pairs) {
    if (!sources.insert(source).second) return "device " + std::to_string(source) + " is the source of two pairs";
    if (!targets.insert(target).second) return "device " + std::to_string(target) + " is the target of two pairs";
  }
  return std::nullopt;
}

Unsupported UnsupportedGroupSize(const CollectiveSpec& spec, int64_t limit) {
  for (int64_t group = 0; limit > 0 && group < spec.groups.size(); ++group) {
    const int64_t members = spec.groups.offsets[group + 1] - spec.groups.offsets[group];
    if (members > limit) {
      return "a replica group of " + std::to_string(members) + " devices, at most " + std::to_string(limit) +
             " can take part";
    }
  }
  return std::nullopt;
}

Unsupported UnsupportedArrays(const CollectiveSpec& spec, int64_t limit) {
  const auto arrays = static_cast<int64_t>(spec.element_types.size());
  if (limit == 0 || spec.op != CollectiveOp::kAllToAll || arrays <= limit) return std::nullopt;
  return "an all-to-all of " + std::to_string(arrays) + " arrays, at most " + std::to_string(limit) +
         " can be exchanged";
}

Unsupported UnsupportedGroups(const CollectiveSpec& spec) {
  std::unordered_set<int64_t> seen;
  for (const int64_t device : spec.groups.devices) {
    if (!seen.insert(device).second) return "device " + std::to_string(device) + " occurs twice in the replica groups";
  }
  return std::nullopt;
}

// A transport for the ops with the trait `platform`.
Transport Carrying(uint32_t platform, std::optional<std::unordered_map<int64_t, int32_t>> reach) {
  Transport transport;
  transport.available = true;
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (info.Has(platform)) transport.carried.push_back(info.op);
  }
  transport.reach = std::move(reach);
  return transport;
}

}  // namespace

Transport CpuTransport(std::optional<std::unordered_map<int64_t, int32_t>> reach) {
  Transport transport = Carrying(op_trait::kOnCpu, std::move(reach));
  transport.divides = Divides::kIfFaster;
  return transport;
}

Transport GpuTransport(std::unordered_map<int64_t, int32_t> reach) {
  Transport transport = Carrying(op_trait::kOnGpu, std::move(reach));
  // kMaxMembers and kMaxParts of nvshmem/gpu/kernels/arguments.h.
  transport.max_group = 128;
  transport.max_all_to_all_arrays = 80;
  transport.divides = Divides::kOnRequest;
  return transport;
}

Transport PatchedXlaTransport(std::unordered_map<int64_t, int32_t> reach) {
  Transport transport = GpuTransport(std::move(reach));
  transport.divides = Divides::kNothing;
  return transport;
}

bool Carries(const Transport& transport, CollectiveOp op) {
  return std::find(transport.carried.begin(), transport.carried.end(), op) != transport.carried.end();
}

Unsupported UnsupportedKind(const CollectiveSpec& spec, const Transport& transport) {
  if (!transport.available) {
    return transport.unavailable_reason.empty() ? "no SHMEM transport" : transport.unavailable_reason;
  }
  if (!Carries(transport, spec.op)) return std::string("no SHMEM ") + OpName(spec.op);
  Unsupported unsupported = UnsupportedElementTypes(spec);
  if (!unsupported.has_value() && IsReducing(spec.op)) unsupported = UnsupportedReduction(spec);
  return unsupported;
}

Unsupported UnsupportedWithinReach(const CollectiveSpec& spec, const Transport& transport) {
  Unsupported unsupported = UnsupportedKind(spec, transport);
  if (!unsupported.has_value()) unsupported = UnsupportedGroupSize(spec, transport.max_group);
  if (!unsupported.has_value()) unsupported = UnsupportedArrays(spec, transport.max_all_to_all_arrays);
  if (!unsupported.has_value()) unsupported = UnsupportedPairs(spec);
  if (!unsupported.has_value()) unsupported = UnsupportedGroups(spec);
  return unsupported;
}

Unsupported UnsupportedReach(const CollectiveSpec& spec, const Topology& topology, const Transport& transport) {
  if (!transport.reach.has_value()) return std::nullopt;
  const auto& reach = *transport.reach;
  const auto apart = [&](int64_t a, int64_t b) -> Unsupported {
    const auto domain_a = reach.find(a);
    const auto domain_b = reach.find(b);
    if (domain_a != reach.end() && domain_b != reach.end() && domain_a->second == domain_b->second) return std::nullopt;
    return DescribeDevice(b, topology) + " is out of reach of " + DescribeDevice(a, topology);
  };
  for (const auto& [source, target] : spec.pairs) {
    if (source == target) continue;
    if (Unsupported unsupported = apart(source, target); unsupported.has_value()) return unsupported;
  }
  for (int64_t group = 0; group < spec.groups.size(); ++group) {
    const int64_t first = spec.groups.offsets[group];
    for (int64_t i = first + 1; i < spec.groups.offsets[group + 1]; ++i) {
      if (Unsupported unsupported = apart(spec.groups.devices[first], spec.groups.devices[i]);
          unsupported.has_value()) {
        return unsupported;
      }
    }
  }
  return std::nullopt;
}

Unsupported UnsupportedByTransport(const CollectiveSpec& spec, const Topology& topology, const Transport& transport) {
  Unsupported unsupported = UnsupportedWithinReach(spec, transport);
  return unsupported.has_value() ? unsupported : UnsupportedReach(spec, topology, transport);
}

}  // namespace xla_shmem
