#ifndef XLA_SHMEM_TESTS_ASSIGNER_SPECS_H_
#define XLA_SHMEM_TESTS_ASSIGNER_SPECS_H_

#include <string>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"

namespace xla_shmem::test {

// Devices 0..n-1 in order, PE = device id.
inline Topology MakeTopology(int devices, int per_process, int per_domain) {
  std::vector<DeviceLocation> locations;
  for (int i = 0; i < devices; ++i) {
    locations.push_back({i, i / per_process, i / per_process, i / per_domain, i});
  }
  return *Topology::Create(std::move(locations));
}

inline CollectiveSpec AllReduce(const std::vector<std::vector<int64_t>>& groups, int64_t bytes,
                                const Topology& topology) {
  CollectiveSpec spec;
  spec.op = CollectiveOp::kAllReduce;
  spec.name = "all-reduce.1";
  spec.bytes = bytes;
  spec.element_types = {ElementType::kF32};
  spec.reduction = ReductionKind::kSum;
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& group : groups) {
    spec.groups.devices.insert(spec.groups.devices.end(), group.begin(), group.end());
    spec.groups.offsets.push_back(static_cast<int64_t>(spec.groups.devices.size()));
  }
  for (const DeviceLocation& device : topology.devices()) {
    all.push_back(device.device_id);
  }
  spec.module = PlaceModule(all, topology);
  return spec;
}

inline CollectiveSpec Permute(std::vector<std::pair<int64_t, int64_t>> pairs, int64_t bytes, const Topology& topology) {
  CollectiveSpec spec = AllReduce({}, bytes, topology);
  spec.op = CollectiveOp::kCollectivePermute;
  spec.reduction = std::nullopt;
  spec.pairs = std::move(pairs);
  return spec;
}

}  // namespace xla_shmem::test

#endif  // XLA_SHMEM_TESTS_ASSIGNER_SPECS_H_
