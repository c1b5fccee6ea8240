#ifndef XLA_SHMEM_HLO_PROTO_GROUPS_H_
#define XLA_SHMEM_HLO_PROTO_GROUPS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/participants.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// The fields of an HloInstructionProto that may describe groups, undecoded.
struct GroupFields {
  std::vector<std::string_view> replica_groups;  // the legacy list
  // The newer forms are a oneof: collective_device_list, iota_collective_device_list or mesh_axes_replica_group_list.
  uint32_t list_field = 0;  // an InstructionField; 0 if there is none
  std::string_view list;
};

// Decodes whichever form is present and expands it. An error, without allocating for them, on ids or sizes that the
// assignment does not have.
Result<DeviceGroups> ResolveGroups(const GroupFields& fields, GroupMode mode, const DeviceAssignment& assignment);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_GROUPS_H_
