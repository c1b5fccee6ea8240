#ifndef XLA_SHMEM_HLO_REPLICA_GROUPS_H_
#define XLA_SHMEM_HLO_REPLICA_GROUPS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/hlo/device_assignment.h"

namespace xla_shmem::hlo {

// What the numbers in replica groups mean (xla/xla_data.proto, enum CollectiveOpGroupMode).
enum class GroupMode { kCrossReplica, kCrossPartition, kCrossReplicaAndPartition, kFlattenedId };

// all-to-all, permutes and broadcasts have no use_global_device_ids: pass `can_be_global` false for them.
bool GetGroupMode(bool has_channel_id, bool can_be_global, bool use_global_device_ids, GroupMode* mode,
                  std::string* error);

// The fields of an HloInstructionProto that may describe groups, undecoded.
struct GroupFields {
  std::vector<std::string_view> replica_groups;  // 49, the legacy list
  uint32_t list_field = 0;                       // the oneof: 87 list, 92 iota, 93 mesh axes, 0 none
  std::string_view list;
};

// Decodes whichever form is present into global device ids, in group order (the order of ids inside a group matters).
// No groups at all means all devices, by mode. Fails, without allocating for them, on ids or sizes the assignment does
// not have.
bool ResolveGroups(const GroupFields& fields, GroupMode mode, const DeviceAssignment& assignment, DeviceGroups* groups,
                   std::string* error);

// Source-target pairs hold replica ids without a channel, partition ids with one, and apply to every slice of the other
// dimension.
bool ResolvePairs(const std::vector<std::pair<int64_t, int64_t>>& pairs, bool has_channel_id,
                  const DeviceAssignment& assignment, std::vector<std::pair<int64_t, int64_t>>* devices,
                  std::string* error);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REPLICA_GROUPS_H_
