#ifndef XLA_SHMEM_HLO_PROTO_DEVICE_ASSIGNMENT_H_
#define XLA_SHMEM_HLO_PROTO_DEVICE_ASSIGNMENT_H_

#include <string>
#include <string_view>

#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// From an xla.DeviceAssignmentProto (replica_count x computation_count, stored by computation).
bool ParseDeviceAssignment(std::string_view proto, DeviceAssignment* assignment, std::string* error);

// The module's own; where it has none, its devices are those of the topology, in order of their ids.
bool ReadAssignment(const Module& module, const Topology& topology, DeviceAssignment* assignment, std::string* error);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_DEVICE_ASSIGNMENT_H_
