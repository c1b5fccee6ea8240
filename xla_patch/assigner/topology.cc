#include "xla_patch/assigner/topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace xla_shmem {
namespace {

uint64_t Fnv1a(uint64_t hash, int64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    hash ^= (static_cast<uint64_t>(value) >> shift) & 0xff;
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

Result<Topology> Topology::Create(std::vector<DeviceLocation> devices) {
  std::sort(devices.begin(), devices.end(),
            [](const DeviceLocation& a, const DeviceLocation& b) { return a.device_id < b.device_id; });
  std::map<int32_t, int64_t> device_of_pe;
  std::map<int32_t, int64_t> devices_of_process;
  uint64_t hash = Fnv1a(0xcbf29ce484222325, static_cast<int64_t>(devices.size()));
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceLocation& device = devices[i];
    const std::string name = "device " + std::to_string(device.device_id);
    if (device.device_id < 0 || device.process < 0 || device.host < 0 || device.nvlink_domain < 0 || device.pe < 0) {
      return Status::Error("topology: " + name + " has a negative id, process, host, NVLink domain or PE");
    }
    if (i > 0 && devices[i - 1].device_id == device.device_id) {
      return Status::Error("topology: " + name + " is listed twice");
    }
    const auto [other, is_new] = device_of_pe.emplace(device.pe, device.device_id);
    if (!is_new) {
      return Status::Error("topology: PE " + std::to_string(device.pe) + " is given to device " +
                           std::to_string(other->second) + " and to " + name);
    }
    ++devices_of_process[device.process];
    for (const int64_t value : {device.device_id, int64_t{device.process}, int64_t{device.host},
                                int64_t{device.nvlink_domain}, int64_t{device.pe}}) {
      hash = Fnv1a(hash, value);
    }
  }
  Topology topology;
  topology.devices_ = std::move(devices);
  topology.num_processes_ = static_cast<int64_t>(devices_of_process.size());
  for (const auto& [process, count] : devices_of_process) {
    topology.max_devices_per_process_ = std::max(topology.max_devices_per_process_, count);
  }
  topology.fingerprint_ = hash;
  return topology;
}

const DeviceLocation* Topology::Find(int64_t device_id) const {
  // Ids are 0..n-1 in nearly every job, so try that slot before searching.
  if (device_id >= 0 && device_id < num_devices() && devices_[device_id].device_id == device_id) {
    return &devices_[device_id];
  }
  const auto found = std::lower_bound(devices_.begin(), devices_.end(), device_id,
                                      [](const DeviceLocation& device, int64_t id) { return device.device_id < id; });
  return found != devices_.end() && found->device_id == device_id ? &*found : nullptr;
}

std::vector<int64_t> Topology::device_ids() const {
  std::vector<int64_t> ids;
  ids.reserve(devices_.size());
  for (const DeviceLocation& device : devices_) ids.push_back(device.device_id);
  return ids;
}

ModulePlacement PlaceModule(const std::vector<int64_t>& device_ids, const Topology& topology) {
  ModulePlacement placement;
  placement.num_devices = static_cast<int64_t>(device_ids.size());
  std::set<int32_t> domains;
  for (const int64_t id : device_ids) {
    const DeviceLocation* device = topology.Find(id);
    if (device == nullptr) return placement;
    domains.insert(device->nvlink_domain);
  }
  placement.num_nvlink_domains = static_cast<int64_t>(domains.size());
  return placement;
}

}  // namespace xla_shmem
