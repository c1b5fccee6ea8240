#ifndef XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_JOB_TOPOLOGY_H_
#define XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_JOB_TOPOLOGY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/runtime/device_id.h"
#include "xla/runtime/process_id.h"
#include "xla_patch/assigner/topology.h"

namespace xla::gpu {

// How many devices a job needs to have for this module to run on it: its largest device id and one, or replicas times
// partitions without a device assignment.
int64_t NumJobDevices(const HloModule& module);

// The job as XLA's compiler knows it, in counts: devices 0 to n-1, `devices_per_process` consecutive ones to a process
// and `devices_per_domain` to an NVLink domain (CompileOptions::slice_size); 0 for an unknown count, which is
// treated as one. A device's PE is its id. InvalidArgument for a negative count.
absl::StatusOr<xla_shmem::Topology> UniformTopology(int64_t num_devices, int64_t devices_per_process,
                                                    int64_t devices_per_domain);

// A job in which NVSHMEM runs, with one device in a process, whose PE is the process. `nvlink_domain` as in
// xla_shmem::EnvironmentOptions, counted in the order of processes; none: all devices reach one another, so they form
// one domain. `hosts`: by process. InvalidArgument if two devices share a process.
absl::StatusOr<xla_shmem::Topology> RunningTopology(const absl::flat_hash_map<GlobalDeviceId, ProcessId>& devices,
                                                    const std::vector<int32_t>& hosts,
                                                    std::optional<int64_t> nvlink_domain);

}  // namespace xla::gpu

#endif  // XLA_BACKENDS_GPU_TRANSFORMS_COLLECTIVES_SHMEM_JOB_TOPOLOGY_H_
