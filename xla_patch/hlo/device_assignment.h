#ifndef XLA_SHMEM_HLO_DEVICE_ASSIGNMENT_H_
#define XLA_SHMEM_HLO_DEVICE_ASSIGNMENT_H_

#include <string>
#include <string_view>

#include "xla_patch/assigner/device_assignment.h"

namespace xla_shmem::hlo {

// From an xla.DeviceAssignmentProto (replica_count x computation_count, stored by computation).
bool ParseDeviceAssignment(std::string_view proto, DeviceAssignment* assignment, std::string* error);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_DEVICE_ASSIGNMENT_H_
