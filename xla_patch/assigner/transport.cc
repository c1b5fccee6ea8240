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

std::string VetoElementTypes(const CollectiveSpec& spec, const Transport::Carried& carried) {
  if (spec.element_types.empty()) {
    return std::string(OpName(spec.op)) + " without a result";
  }
  for (const int32_t type : spec.element_types) {
    const int32_t bits = ElementTypeBits(type);
    if (bits == 0 || bits % 8 != 0) {
      return ElementTypeName(type) + " has no whole-byte elements";
    }
    const auto& types = carried.element_types;
    if (!types.empty() && std::find(types.begin(), types.end(), type) == types.end()) {
      return "no SHMEM " + std::string(OpName(spec.op)) + " for " + ElementTypeName(type);
    }
  }
  return "";
}

std::string VetoPairs(const CollectiveSpec& spec) {
  std::unordered_set<int64_t> sources;
  std::unordered_set<int64_t> targets;
  for (const auto& [source, target] : spec.pairs) {
    if (!sources.insert(source).second) {
      return "device " + std::to_string(source) + " is the source of two pairs";
    }
    if (!targets.insert(target).second) {
      return "device " + std::to_string(target) + " is the target of two pairs";
    }
  }
  return "";
}

std::string VetoGroupSize(const CollectiveSpec& spec, int64_t limit) {
  for (int64_t group = 0; limit > 0 && group < spec.groups.size(); ++group) {
    const int64_t members = spec.groups.offsets[group + 1] - spec.groups.offsets[group];
    if (members > limit) {
      return "a replica group of " + std::to_string(members) + " devices, at most " + std::to_string(limit) +
             " can be reduced";
    }
  }
  return "";
}

std::string VetoGroups(const CollectiveSpec& spec) {
  std::unordered_set<int64_t> seen;
  for (const int64_t device : spec.groups.devices) {
    if (!seen.insert(device).second) {
      return "device " + std::to_string(device) + " occurs twice in the replica groups";
    }
  }
  return "";
}

std::string VetoReach(const CollectiveSpec& spec, const Topology& topology, const Transport& transport) {
  if (!transport.reach.has_value()) {
    return "";
  }
  const auto& reach = *transport.reach;
  const auto apart = [&](int64_t a, int64_t b) -> std::string {
    const auto domain_a = reach.find(a);
    const auto domain_b = reach.find(b);
    if (domain_a != reach.end() && domain_b != reach.end() && domain_a->second == domain_b->second) {
      return "";
    }
    return DescribeDevice(b, topology) + " is out of reach of " + DescribeDevice(a, topology);
  };
  std::string veto;
  for (const auto& [source, target] : spec.pairs) {
    if (source != target && !(veto = apart(source, target)).empty()) {
      return veto;
    }
  }
  for (int64_t group = 0; group < spec.groups.size(); ++group) {
    const int64_t first = spec.groups.offsets[group];
    for (int64_t i = first + 1; i < spec.groups.offsets[group + 1]; ++i) {
      if (!(veto = apart(spec.groups.devices[first], spec.groups.devices[i])).empty()) {
        return veto;
      }
    }
  }
  return "";
}

}  // namespace

std::vector<Transport::Carried> StandardCarried() {
  using namespace element_type;  // NOLINT: a list of sixteen constants
  return {{OpKind::kCollectivePermute, {}, {}},
          {OpKind::kAllReduce,
           {kF32, kF64, kBF16, kF16, kS8, kS16, kS32, kS64, kU8, kU16, kU32, kU64},
           {Reduction::kSum, Reduction::kProd, Reduction::kMin, Reduction::kMax}}};
}

Transport CpuTransport(std::unordered_map<int64_t, int32_t> reach) {
  Transport transport;
  transport.available = true;
  transport.carried = StandardCarried();
  transport.reach = std::move(reach);
  return transport;
}

Transport GpuTransport(std::unordered_map<int64_t, int32_t> reach) {
  Transport transport = CpuTransport(std::move(reach));
  transport.max_reduced_group = 128;  // pointers that fit a kernel's parameters (nvshmem/gpu/kernels.cu)
  return transport;
}

std::string Veto(const CollectiveSpec& spec, const Topology& topology, const Transport& transport) {
  if (!transport.available) {
    return transport.unavailable_reason.empty() ? "no SHMEM transport" : transport.unavailable_reason;
  }
  const auto carried = std::find_if(transport.carried.begin(), transport.carried.end(),
                                    [&](const Transport::Carried& candidate) { return candidate.op == spec.op; });
  if (carried == transport.carried.end()) {
    return std::string("no SHMEM ") + OpName(spec.op);
  }
  std::string veto = VetoElementTypes(spec, *carried);
  if (veto.empty() && spec.op == OpKind::kAllReduce) {
    const auto& reductions = carried->reductions;
    if (spec.reduction == Reduction::kNone) {
      veto = "the reduction is not a plain sum, prod, min or max";
    } else if (std::find(reductions.begin(), reductions.end(), spec.reduction) == reductions.end()) {
      veto = std::string("no SHMEM reduction \"") + ReductionName(spec.reduction) + "\"";
    } else {
      veto = VetoGroupSize(spec, transport.max_reduced_group);
    }
  }
  if (veto.empty()) {
    veto = VetoPairs(spec);
  }
  if (veto.empty()) {
    veto = VetoGroups(spec);
  }
  return veto.empty() ? VetoReach(spec, topology, transport) : veto;
}

}  // namespace xla_shmem
