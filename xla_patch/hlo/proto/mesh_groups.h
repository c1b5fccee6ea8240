#ifndef XLA_SHMEM_HLO_PROTO_MESH_GROUPS_H_
#define XLA_SHMEM_HLO_PROTO_MESH_GROUPS_H_

#include <cstdint>
#include <string_view>

#include "xla_patch/assigner/participants.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Replica groups as axes of a mesh (xla.MeshAxesReplicaGroupListProto): the devices that differ only in the named axes
// form a group. `max_ids` bounds the ids that may be allocated, as in group_list.h.
Result<IdGroups> ReadMeshAxesList(std::string_view proto, int64_t max_ids);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_MESH_GROUPS_H_
