#ifndef XLA_SHMEM_ASSIGNER_DEVICE_ASSIGNMENT_H_
#define XLA_SHMEM_ASSIGNER_DEVICE_ASSIGNMENT_H_

#include <cstdint>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem {

// Which device runs replica r of partition p. In a module without one (offline files) logical id i is the i-th of the
// given devices, and each collective implies the split into replicas and partitions.
class DeviceAssignment {
 public:
  // Upper bound for the number of devices of a job: far above any machine, and small enough for memory.
  static constexpr int64_t kMaxDevices = int64_t{1} << 20;

  // by_partition[p][r] runs replica r of partition p. An error if the numbers contradict each other.
  static Result<DeviceAssignment> Create(int64_t replicas, int64_t partitions,
                                         const std::vector<std::vector<int64_t>>& by_partition);
  static DeviceAssignment Logical(std::vector<int64_t> devices);
  // No devices are known: ids are devices, and "all devices" is empty.
  static DeviceAssignment Unknown() { return DeviceAssignment(); }

  bool is_logical() const { return replica_count_ == 0 && !devices_.empty(); }
  bool is_unknown() const { return devices_.empty(); }
  int64_t num_devices() const { return static_cast<int64_t>(devices_.size()); }
  int64_t replica_count() const { return replica_count_; }      // 0 when logical
  int64_t partition_count() const { return partition_count_; }  // 0 when logical

  // By flattened id: replica * partition_count + partition.
  const std::vector<int64_t>& devices() const { return devices_; }

 private:
  int64_t replica_count_ = 0;
  int64_t partition_count_ = 0;
  std::vector<int64_t> devices_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_DEVICE_ASSIGNMENT_H_
