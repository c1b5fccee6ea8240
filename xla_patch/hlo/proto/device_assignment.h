#ifndef XLA_SHMEM_HLO_PROTO_DEVICE_ASSIGNMENT_H_
#define XLA_SHMEM_HLO_PROTO_DEVICE_ASSIGNMENT_H_

#include <string_view>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// From an xla.DeviceAssignmentProto (replica_count x computation_count, stored by computation).
Result<DeviceAssignment> ParseDeviceAssignment(std::string_view proto);

// The module's own; where it has none, its devices are those of the topology, in order of their ids.
Result<DeviceAssignment> ReadAssignment(const Module& module, const Topology& topology);

// The placement of a module with this assignment.
ModulePlacement PlaceModule(const DeviceAssignment& assignment, const Topology& topology);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_DEVICE_ASSIGNMENT_H_
