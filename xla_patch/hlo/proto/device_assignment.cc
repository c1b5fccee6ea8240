#include "xla_patch/hlo/proto/device_assignment.h"

#include <cstdint>
#include <vector>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {

Result<DeviceAssignment> ParseDeviceAssignment(std::string_view proto) {
  int64_t replicas = 0;
  int64_t partitions = 0;
  std::vector<std::vector<int64_t>> by_partition;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == DeviceAssignmentField::kReplicaCount) {
      replicas = field.AsInt();
    } else if (field.number == DeviceAssignmentField::kComputationCount) {
      partitions = field.AsInt();
    } else if (field.number == DeviceAssignmentField::kComputationDevices) {
      by_partition.emplace_back();
      FieldReader inner(field.bytes);
      for (Field ids; inner.Next(&ids);) {
        if (ids.number == ComputationDeviceField::kReplicaDeviceIds && !AppendRepeatedInts(ids, &by_partition.back())) {
          return Status::Error("device assignment: bad list of device ids");
        }
      }
      if (!inner.ok()) return Status::Error("device assignment: " + inner.error());
    }
  }
  if (!reader.ok()) return Status::Error("device assignment: " + reader.error());
  return DeviceAssignment::Create(replicas, partitions, by_partition);
}

Result<DeviceAssignment> ReadAssignment(const Module& module, const Topology& topology) {
  if (!module.device_assignment.empty()) return ParseDeviceAssignment(module.device_assignment);
  return DeviceAssignment::Logical(topology.device_ids());
}

ModulePlacement PlaceModule(const DeviceAssignment& assignment, const Topology& topology) {
  ModulePlacement placement = xla_shmem::PlaceModule(assignment.devices(), topology);
  placement.has_replicas_and_partitions = assignment.replica_count() > 1 && assignment.partition_count() > 1;
  return placement;
}

}  // namespace xla_shmem::hlo
