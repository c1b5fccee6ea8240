#include "xla_patch/assigner/participants.h"

#include <algorithm>
#include <string>

namespace xla_shmem {
namespace {

// The ids that a group mode uses: of replicas, partitions or devices.
struct IdSpace {
  const char* noun;
  int64_t count;
};

Status CheckIds(const IdGroups& groups, const IdSpace& space) {
  for (const int64_t id : groups.ids) {
    if (id < 0 || id >= space.count) {
      return Status::Error(std::string("replica groups: ") + space.noun + " " + std::to_string(id) +
                           ", but the module has " + std::to_string(space.count));
    }
  }
  return Status();
}

// The split into replicas and partitions that a collective implies if the module has no device assignment.
struct Split {
  int64_t replicas;
  int64_t partitions;
};

Result<Split> ImpliedSplit(const IdGroups& groups, GroupMode mode, int64_t num_devices) {
  if (mode == GroupMode::kCrossReplica) return Split{num_devices, 1};
  if (mode != GroupMode::kCrossReplicaAndPartition) return Split{1, num_devices};
  int64_t replicas = 1;
  for (const int64_t id : groups.ids) replicas = std::max(replicas, id < num_devices ? id + 1 : num_devices);
  if (num_devices % replicas != 0) {
    return Status::Error("replica groups: " + std::to_string(num_devices) + " devices do not split into " +
                         std::to_string(replicas) + " replicas");
  }
  return Split{replicas, num_devices / replicas};
}

}  // namespace

bool CanBeGlobal(CollectiveOp op) { return InfoOf(op).Has(op_trait::kGlobalDeviceIds); }

Result<GroupMode> GetGroupMode(bool has_channel_id, bool can_be_global, bool use_global_device_ids) {
  if (use_global_device_ids && !can_be_global) {
    return Status::Error("replica groups: use_global_device_ids for an op that has no such flag");
  }
  if (use_global_device_ids && !has_channel_id) {
    return Status::Error("replica groups: use_global_device_ids without a channel_id");
  }
  if (!has_channel_id) return GroupMode::kCrossReplica;
  if (!can_be_global) return GroupMode::kCrossPartition;
  return use_global_device_ids ? GroupMode::kFlattenedId : GroupMode::kCrossReplicaAndPartition;
}

int64_t MaxGroupIds(const DeviceAssignment& assignment) {
  return assignment.is_unknown() ? DeviceAssignment::kMaxDevices : assignment.num_devices();
}

Result<DeviceGroups> ExpandGroups(IdGroups ids, GroupMode mode, const DeviceAssignment& assignment) {
  DeviceGroups groups;
  const int64_t num_devices = MaxGroupIds(assignment);
  if (assignment.is_unknown()) {
    XLA_SHMEM_RETURN_IF_ERROR(CheckIds(ids, {"id", num_devices}));
    groups.devices = std::move(ids.ids);
    groups.offsets = std::move(ids.offsets);
    return groups;
  }
  Split split = {assignment.replica_count(), assignment.partition_count()};
  if (assignment.is_logical()) {
    const Result<Split> implied = ImpliedSplit(ids, mode, num_devices);
    if (!implied.ok()) return implied.status();
    split = *implied;
  }
  IdSpace space = {"replica", split.replicas};
  if (mode == GroupMode::kCrossPartition) {
    space = {"partition", split.partitions};
  } else if (mode == GroupMode::kFlattenedId) {
    space = {"device", num_devices};
  }
  if (ids.ids.empty()) {
    for (int64_t id = 0; id < space.count; ++id) ids.ids.push_back(id);
    ids.offsets.push_back(space.count);
  }
  XLA_SHMEM_RETURN_IF_ERROR(CheckIds(ids, space));
  const auto device = [&](int64_t replica, int64_t partition) {
    return assignment.devices()[replica * split.partitions + partition];
  };
  // A group is repeated once for each slice of the dimension that the ids do not name.
  const int64_t slices = mode == GroupMode::kCrossReplica     ? split.partitions
                         : mode == GroupMode::kCrossPartition ? split.replicas
                                                              : 1;
  // Duplicate ids are rejected later. Here they must not multiply memory, so their number is bounded.
  if (static_cast<int64_t>(ids.ids.size()) > space.count) {
    return Status::Error(std::string("replica groups: ") + std::to_string(ids.ids.size()) + " ids for " +
                         std::to_string(space.count) + " " + space.noun + "s");
  }
  for (size_t group = 0; group + 1 < ids.offsets.size(); ++group) {
    for (int64_t slice = 0; slice < slices; ++slice) {
      for (int64_t i = ids.offsets[group]; i < ids.offsets[group + 1]; ++i) {
        const int64_t id = ids.ids[i];
        switch (mode) {
          case GroupMode::kCrossReplica:
            groups.devices.push_back(device(id, slice));
            break;
          case GroupMode::kCrossPartition:
            groups.devices.push_back(device(slice, id));
            break;
          case GroupMode::kCrossReplicaAndPartition:
            for (int64_t partition = 0; partition < split.partitions; ++partition) {
              groups.devices.push_back(device(id, partition));
            }
            break;
          case GroupMode::kFlattenedId:
            groups.devices.push_back(assignment.devices()[id]);
            break;
        }
      }
      groups.offsets.push_back(static_cast<int64_t>(groups.devices.size()));
    }
  }
  return groups;
}

Result<std::vector<std::pair<int64_t, int64_t>>> ResolvePairs(const std::vector<std::pair<int64_t, int64_t>>& pairs,
                                                              bool has_channel_id, const DeviceAssignment& assignment) {
  Split split = {assignment.replica_count(), assignment.partition_count()};
  if (assignment.is_unknown()) {
    split = {DeviceAssignment::kMaxDevices, 1};
  } else if (assignment.is_logical()) {
    split = {assignment.num_devices(), 1};
  }
  const bool by_partition = has_channel_id && !assignment.is_unknown() && !assignment.is_logical();
  const int64_t count = by_partition ? split.partitions : split.replicas;
  const int64_t slices = by_partition ? split.replicas : split.partitions;
  for (const auto& [source, target] : pairs) {
    for (const int64_t id : {source, target}) {
      if (id < 0 || id >= count) {
        return Status::Error(std::string("source-target pairs: ") + (has_channel_id ? "partition " : "replica ") +
                             std::to_string(id) + ", but the module has " + std::to_string(count));
      }
    }
  }
  // A source may have several targets, but more pairs than ids are always wrong and would only multiply memory.
  if (static_cast<int64_t>(pairs.size()) > count) {
    return Status::Error("source-target pairs: " + std::to_string(pairs.size()) + " pairs for " +
                         std::to_string(count) + " ids");
  }
  std::vector<std::pair<int64_t, int64_t>> devices;
  devices.reserve(pairs.size() * slices);
  const auto device = [&](int64_t id, int64_t slice) {
    if (assignment.is_unknown()) return id;
    return assignment.devices()[by_partition ? slice * split.partitions + id : id * split.partitions + slice];
  };
  for (int64_t slice = 0; slice < slices; ++slice) {
    for (const auto& [source, target] : pairs) devices.emplace_back(device(source, slice), device(target, slice));
  }
  return devices;
}

}  // namespace xla_shmem
