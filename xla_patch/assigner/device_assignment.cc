#include "xla_patch/assigner/device_assignment.h"

#include <string>
#include <utility>

namespace xla_shmem {

Result<DeviceAssignment> DeviceAssignment::Create(int64_t replicas, int64_t partitions,
                                                  const std::vector<std::vector<int64_t>>& by_partition) {
  const std::string size = std::to_string(replicas) + " replicas x " + std::to_string(partitions) + " partitions";
  if (replicas <= 0 || partitions <= 0 || replicas > kMaxDevices / partitions) {
    return Status::Error("device assignment: " + size + " is empty or more than " + std::to_string(kMaxDevices) +
                         " devices");
  }
  if (static_cast<int64_t>(by_partition.size()) != partitions) {
    return Status::Error("device assignment: " + size + ", but " + std::to_string(by_partition.size()) +
                         " lists of devices");
  }
  for (const std::vector<int64_t>& ids : by_partition) {
    if (static_cast<int64_t>(ids.size()) != replicas) {
      return Status::Error("device assignment: " + size + ", but a list of " + std::to_string(ids.size()) + " devices");
    }
  }
  DeviceAssignment assignment;
  assignment.replica_count_ = replicas;
  assignment.partition_count_ = partitions;
  assignment.devices_.resize(replicas * partitions);
  for (int64_t partition = 0; partition < partitions; ++partition) {
    for (int64_t replica = 0; replica < replicas; ++replica) {
      assignment.devices_[replica * partitions + partition] = by_partition[partition][replica];
    }
  }
  return assignment;
}

DeviceAssignment DeviceAssignment::Logical(std::vector<int64_t> devices) {
  DeviceAssignment assignment;
  assignment.devices_ = std::move(devices);
  return assignment;
}

}  // namespace xla_shmem
