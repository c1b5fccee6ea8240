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

template <typename T>
bool Contains(const std::vector<T>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

const Transport::Carried* FindCarried(const Transport& transport, CollectiveOp op) {
  const auto carried = std::find_if(transport.carried.begin(), transport.carried.end(),
                                    [&](const Transport::Carried& candidate) { return candidate.op == op; });
  return carried == transport.carried.end() ? nullptr : &*carried;
}

Unsupported UnsupportedElementTypes(const CollectiveSpec& spec) {
  if (spec.element_types.empty()) {
    return std::string(OpName(spec.op)) + " without a result";
  }
  for (const ElementType type : spec.element_types) {
    const int32_t bits = ElementBits(type);
    if (bits == 0 || bits % 8 != 0) {
      return ElementTypeName(type) + " has no whole-byte elements";
    }
  }
  return std::nullopt;
}

Unsupported UnsupportedReduction(const CollectiveSpec& spec, const Transport::Carried& carried) {
  if (!spec.reduction.has_value()) {
    return "the reduction is not a plain sum, prod, min, max, and, or or xor";
  }
  for (const ElementType type : spec.element_types) {
    bool knows_type = false;
    bool knows_both = false;
    for (const Transport::Reducible& reducible : carried.reducible) {
      const bool has_type = Contains(reducible.element_types, type);
      knows_type = knows_type || has_type;
      knows_both = knows_both || (has_type && Contains(reducible.reductions, *spec.reduction));
    }
    if (!knows_type) {
      return "no SHMEM " + std::string(OpName(spec.op)) + " for " + ElementTypeName(type);
    }
    if (!knows_both) {
      return "no SHMEM reduction \"" + std::string(ReductionName(spec.reduction)) + "\" for " + ElementTypeName(type);
    }
  }
  return std::nullopt;
}

Unsupported UnsupportedPairs(const CollectiveSpec& spec) {
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
    if (!seen.insert(device).second) {
      return "device " + std::to_string(device) + " occurs twice in the replica groups";
    }
  }
  return std::nullopt;
}

// The reductions of thunks/reduction.h, which both platforms have.
std::vector<Transport::Reducible> Reductions() {
  using E = ElementType;
  using R = ReductionKind;
  return {
      {{E::kF32, E::kF64, E::kBf16, E::kF16, E::kF8E5M2, E::kF8E4M3Fn, E::kF8E4M3B11Fnuz, E::kF8E5M2Fnuz,
        E::kF8E4M3Fnuz, E::kF8E4M3, E::kF8E3M4},
       {R::kSum, R::kProd, R::kMin, R::kMax}},
      {{E::kPred, E::kS8, E::kS16, E::kS32, E::kS64, E::kU8, E::kU16, E::kU32, E::kU64},
       {R::kSum, R::kProd, R::kMin, R::kMax, R::kAnd, R::kOr, R::kXor}},
      {{E::kC64, E::kC128}, {R::kSum, R::kProd}},  // complex numbers have no order
  };
}

// A transport for the ops with the trait `platform`.
Transport Carrying(uint32_t platform, std::optional<std::unordered_map<int64_t, int32_t>> reach) {
  Transport transport;
  transport.available = true;
  for (const CollectiveOpInfo& info : kCollectiveOps) {
    if (info.Has(platform)) {
      transport.carried.push_back(
          {info.op, info.Has(op_trait::kReduces) ? Reductions() : std::vector<Transport::Reducible>()});
    }
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
  const auto has_no_thunk = [](const Transport::Carried& carried) {
    return carried.op != CollectiveOp::kAllReduce && carried.op != CollectiveOp::kCollectivePermute;
  };
  transport.carried.erase(std::remove_if(transport.carried.begin(), transport.carried.end(), has_no_thunk),
                          transport.carried.end());
  return transport;
}

bool Carries(const Transport& transport, CollectiveOp op) { return FindCarried(transport, op) != nullptr; }

Unsupported UnsupportedKind(const CollectiveSpec& spec, const Transport& transport) {
  if (!transport.available) {
    return transport.unavailable_reason.empty() ? "no SHMEM transport" : transport.unavailable_reason;
  }
  const Transport::Carried* carried = FindCarried(transport, spec.op);
  if (carried == nullptr) {
    return std::string("no SHMEM ") + OpName(spec.op);
  }
  Unsupported unsupported = UnsupportedElementTypes(spec);
  if (!unsupported.has_value() && IsReducing(spec.op)) {
    unsupported = UnsupportedReduction(spec, *carried);
  }
  return unsupported;
}

Unsupported UnsupportedWithinReach(const CollectiveSpec& spec, const Transport& transport) {
  Unsupported unsupported = UnsupportedKind(spec, transport);
  if (!unsupported.has_value()) {
    unsupported = UnsupportedGroupSize(spec, transport.max_group);
  }
  if (!unsupported.has_value()) {
    unsupported = UnsupportedArrays(spec, transport.max_all_to_all_arrays);
  }
  if (!unsupported.has_value()) {
    unsupported = UnsupportedPairs(spec);
  }
  if (!unsupported.has_value()) {
    unsupported = UnsupportedGroups(spec);
  }
  return unsupported;
}

Unsupported UnsupportedReach(const CollectiveSpec& spec, const Topology& topology, const Transport& transport) {
  if (!transport.reach.has_value()) {
    return std::nullopt;
  }
  const auto& reach = *transport.reach;
  const auto apart = [&](int64_t a, int64_t b) -> Unsupported {
    const auto domain_a = reach.find(a);
    const auto domain_b = reach.find(b);
    if (domain_a != reach.end() && domain_b != reach.end() && domain_a->second == domain_b->second) {
      return std::nullopt;
    }
    return DescribeDevice(b, topology) + " is out of reach of " + DescribeDevice(a, topology);
  };
  for (const auto& [source, target] : spec.pairs) {
    if (source == target) {
      continue;
    }
    if (Unsupported unsupported = apart(source, target); unsupported.has_value()) {
      return unsupported;
    }
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
