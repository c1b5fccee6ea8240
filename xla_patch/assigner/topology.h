#ifndef XLA_SHMEM_ASSIGNER_TOPOLOGY_H_
#define XLA_SHMEM_ASSIGNER_TOPOLOGY_H_

#include <cstdint>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem {

// The location of one device. `device_id` is XLA's global device id; `pe` is the device's rank in the SHMEM world.
struct DeviceLocation {
  int64_t device_id = 0;
  int32_t process = 0;
  int32_t host = 0;
  int32_t nvlink_domain = 0;
  int32_t pe = 0;
};

// All devices of the job. Immutable once created; the same on every rank, whatever order the devices were given in.
class Topology {
 public:
  // An empty topology: every device is unknown to it.
  Topology() = default;

  // An error if a device id or a PE occurs twice or a number is negative.
  static Result<Topology> Create(std::vector<DeviceLocation> devices);

  // Null for an id that is not part of the job.
  const DeviceLocation* Find(int64_t device_id) const;

  // Sorted by device id. In a module without a device assignment logical id i is devices()[i].
  const std::vector<DeviceLocation>& devices() const { return devices_; }
  std::vector<int64_t> device_ids() const;
  int64_t num_devices() const { return static_cast<int64_t>(devices_.size()); }
  int64_t num_processes() const { return num_processes_; }

  // Largest number of devices that one process drives.
  int64_t max_devices_per_process() const { return max_devices_per_process_; }

  // Equal on all ranks and across runs for equal topologies (FNV-1a over all fields in device-id order). Executables
  // carry it so that one compiled for another topology refuses to run.
  uint64_t Fingerprint() const { return fingerprint_; }

 private:
  std::vector<DeviceLocation> devices_;
  int64_t num_processes_ = 0;
  int64_t max_devices_per_process_ = 0;
  uint64_t fingerprint_ = 0;
};

// The devices of one module in the topology: what the rules need about the whole module.
struct ModulePlacement {
  int64_t num_devices = 0;
  int64_t num_nvlink_domains = 0;            // 0: a device of the module is not in the topology
  bool has_replicas_and_partitions = false;  // more than one of each
};
ModulePlacement PlaceModule(const std::vector<int64_t>& device_ids, const Topology& topology);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TOPOLOGY_H_
