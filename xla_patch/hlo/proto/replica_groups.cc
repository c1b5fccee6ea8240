#include "xla_patch/hlo/proto/replica_groups.h"

#include <utility>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/group_list.h"
#include "xla_patch/hlo/proto/mesh_groups.h"

namespace xla_shmem::hlo {
namespace {

bool ReadGroups(const GroupFields& fields, int64_t max_ids, IdGroups* groups, std::string* error) {
  if (fields.list_field == InstructionField::kIotaCollectiveDeviceList) {
    return ReadIotaList(fields.list, max_ids, groups, error);
  }
  if (fields.list_field == InstructionField::kMeshAxesReplicaGroupList) {
    return ReadMeshAxesList(fields.list, max_ids, groups, error);
  }
  if (!fields.replica_groups.empty()) {  // XLA prefers the legacy list over collective_device_list as well
    for (const std::string_view group : fields.replica_groups) {
      if (!AppendReplicaGroup(group, max_ids, groups, error)) {
        return false;
      }
    }
    return true;
  }
  return fields.list_field != InstructionField::kCollectiveDeviceList ||
         ReadDeviceList(fields.list, max_ids, groups, error);
}

}  // namespace

bool ResolveGroups(const GroupFields& fields, GroupMode mode, const DeviceAssignment& assignment, DeviceGroups* groups,
                   std::string* error) {
  *groups = DeviceGroups();
  IdGroups ids;
  return ReadGroups(fields, MaxGroupIds(assignment), &ids, error) &&
         ExpandGroups(std::move(ids), mode, assignment, groups, error);
}

}  // namespace xla_shmem::hlo
