#include "xla/backends/gpu/transforms/collectives/shmem/job_topology.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "xla/service/computation_placer.h"
#include "xla/service/hlo_module_config.h"
#include "xla_patch/types/status.h"

namespace xla::gpu {
namespace {

absl::StatusOr<xla_shmem::Topology> CreateTopology(std::vector<xla_shmem::DeviceLocation> devices) {
  xla_shmem::Result<xla_shmem::Topology> topology = xla_shmem::Topology::Create(std::move(devices));
  if (!topology.ok()) return absl::InvalidArgumentError(topology.message());
  return *std::move(topology);
}

}  // namespace

int64_t NumJobDevices(const HloModule& module) {
  const HloModuleConfig& config = module.config();
  if (!config.has_static_device_assignment()) return config.replica_count() * config.num_partitions();
  int64_t largest = -1;
  for (const int64_t device : config.static_device_assignment()) largest = std::max(largest, device);
  return largest + 1;
}

absl::StatusOr<xla_shmem::Topology> UniformTopology(int64_t num_devices, int64_t devices_per_process,
                                                    int64_t devices_per_domain) {
  if (num_devices < 0 || devices_per_process < 0 || devices_per_domain < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a job of ", num_devices, " devices, ", devices_per_process,
                                                   " per process and ", devices_per_domain,
                                                   " per NVLink domain: none of them can be negative"));
  }
  const auto group = [](int64_t id, int64_t size) { return static_cast<int32_t>(id / std::max<int64_t>(size, 1)); };
  std::vector<xla_shmem::DeviceLocation> devices;
  devices.reserve(num_devices);
  for (int64_t id = 0; id < num_devices; ++id) {
    const int32_t process = group(id, devices_per_process);
    devices.push_back({id, process, /*host=*/process, group(id, devices_per_domain), static_cast<int32_t>(id)});
  }
  return CreateTopology(std::move(devices));
}

absl::StatusOr<xla_shmem::Topology> RunningTopology(const absl::flat_hash_map<GlobalDeviceId, ProcessId>& devices,
                                                    const std::vector<int32_t>& hosts,
                                                    std::optional<int64_t> nvlink_domain) {
  std::vector<xla_shmem::DeviceLocation> locations;
  for (const auto& [device, process_id] : devices) {
    const auto process = static_cast<int32_t>(process_id.value());
    const int32_t host = hosts[process];
    int32_t domain = 0;
    if (nvlink_domain.has_value()) {
      domain = *nvlink_domain == 0 ? host : static_cast<int32_t>(process / *nvlink_domain);
    }
    locations.push_back({device.value(), process, host, domain, /*pe=*/process});
  }
  return CreateTopology(std::move(locations));
}

}  // namespace xla::gpu
