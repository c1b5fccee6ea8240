#include "xla_patch/hlo/proto/replica_groups.h"

#include <utility>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/group_list.h"
#include "xla_patch/hlo/proto/mesh_groups.h"

namespace xla_shmem::hlo {
namespace {

Result<IdGroups> ReadGroups(const GroupFields& fields, int64_t max_ids) {
  if (fields.list_field == InstructionField::kIotaCollectiveDeviceList) {
    return ReadIotaList(fields.list, max_ids);
  }
  if (fields.list_field == InstructionField::kMeshAxesReplicaGroupList) {
    return ReadMeshAxesList(fields.list, max_ids);
  }
  // XLA prefers the legacy list over collective_device_list as well.
  if (fields.replica_groups.empty() && fields.list_field == InstructionField::kCollectiveDeviceList) {
    return ReadDeviceList(fields.list, max_ids);
  }
  IdGroups groups;
  for (const std::string_view group : fields.replica_groups) {
    XLA_SHMEM_RETURN_IF_ERROR(AppendReplicaGroup(group, max_ids, &groups));
  }
  return groups;
}

}  // namespace

Result<DeviceGroups> ResolveGroups(const GroupFields& fields, GroupMode mode, const DeviceAssignment& assignment) {
  Result<IdGroups> ids = ReadGroups(fields, MaxGroupIds(assignment));
  if (!ids.ok()) {
    return ids.status();
  }
  return ExpandGroups(*std::move(ids), mode, assignment);
}

}  // namespace xla_shmem::hlo
