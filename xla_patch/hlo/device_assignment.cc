#include "xla_patch/hlo/device_assignment.h"

#include <utility>

#include "xla_patch/hlo/wire.h"

namespace xla_shmem::hlo {

bool DeviceAssignment::Parse(std::string_view proto, DeviceAssignment* assignment, std::string* error) {
  int64_t replicas = 0;
  int64_t partitions = 0;
  std::vector<std::vector<int64_t>> by_partition;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == 1) {
      replicas = field.AsInt();
    } else if (field.number == 2) {
      partitions = field.AsInt();
    } else if (field.number == 3) {
      by_partition.emplace_back();
      FieldReader inner(field.bytes);
      for (Field ids; inner.Next(&ids);) {
        if (ids.number == 1 && !AppendRepeatedInts(ids, &by_partition.back())) {
          *error = "device assignment: bad list of device ids";
          return false;
        }
      }
      if (!inner.ok()) {
        *error = "device assignment: " + inner.error();
        return false;
      }
    }
  }
  if (!reader.ok()) {
    *error = "device assignment: " + reader.error();
    return false;
  }
  const std::string size = std::to_string(replicas) + " replicas x " + std::to_string(partitions) + " partitions";
  if (replicas <= 0 || partitions <= 0 || replicas > kMaxDevices / partitions) {
    *error = "device assignment: " + size + " is empty or more than " + std::to_string(kMaxDevices) + " devices";
    return false;
  }
  if (static_cast<int64_t>(by_partition.size()) != partitions) {
    *error = "device assignment: " + size + ", but " + std::to_string(by_partition.size()) + " lists of devices";
    return false;
  }
  for (const std::vector<int64_t>& ids : by_partition) {
    if (static_cast<int64_t>(ids.size()) != replicas) {
      *error = "device assignment: " + size + ", but a list of " + std::to_string(ids.size()) + " devices";
      return false;
    }
  }
  assignment->replica_count_ = replicas;
  assignment->partition_count_ = partitions;
  assignment->devices_.resize(replicas * partitions);
  for (int64_t partition = 0; partition < partitions; ++partition) {
    for (int64_t replica = 0; replica < replicas; ++replica) {
      assignment->devices_[replica * partitions + partition] = by_partition[partition][replica];
    }
  }
  return true;
}

DeviceAssignment DeviceAssignment::Logical(std::vector<int64_t> devices) {
  DeviceAssignment assignment;
  assignment.devices_ = std::move(devices);
  return assignment;
}

}  // namespace xla_shmem::hlo
