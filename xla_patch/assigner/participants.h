#ifndef XLA_SHMEM_ASSIGNER_PARTICIPANTS_H_
#define XLA_SHMEM_ASSIGNER_PARTICIPANTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/device_assignment.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// Groups as the module numbers them, before any meaning is given to the numbers: group i is ids[offsets[i], offsets[i +
// 1]).
struct IdGroups {
  std::vector<int64_t> ids;
  std::vector<int64_t> offsets = {0};
};

// The meaning of the numbers in replica groups (xla/xla_data.proto, enum CollectiveOpGroupMode).
enum class GroupMode { kCrossReplica, kCrossPartition, kCrossReplicaAndPartition, kFlattenedId };

// all-to-all, permutes and broadcasts have no use_global_device_ids.
bool CanBeGlobal(CollectiveOp op);
// An error if the three contradict each other.
Result<GroupMode> GetGroupMode(bool has_channel_id, bool can_be_global, bool use_global_device_ids);

// Turns ids into global device ids, in group order (the order of ids inside a group matters). No groups at all means
// all devices, by mode. An error, without allocating for them, on ids the assignment does not have.
Result<DeviceGroups> ExpandGroups(IdGroups ids, GroupMode mode, const DeviceAssignment& assignment);

// The device ids that groups can name at most: what a reader should bound compact forms by.
int64_t MaxGroupIds(const DeviceAssignment& assignment);

// Source-target pairs hold replica ids without a channel, partition ids with one, and apply to every slice of the other
// dimension. The result holds devices; an error on ids the assignment does not have.
Result<std::vector<std::pair<int64_t, int64_t>>> ResolvePairs(const std::vector<std::pair<int64_t, int64_t>>& pairs,
                                                              bool has_channel_id, const DeviceAssignment& assignment);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_PARTICIPANTS_H_
