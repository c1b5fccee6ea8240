#include "xla_patch/hlo/proto/group_list.h"

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

Status MalformedGroups(const std::string& text) { return Status::Error("replica groups: " + text); }

// Cuts `ids` into groups of equal size.
IdGroups SplitEvenly(std::vector<int64_t> ids, int64_t group_size) {
  IdGroups groups;
  groups.ids = std::move(ids);
  const auto total = static_cast<int64_t>(groups.ids.size());
  for (int64_t end = group_size; end <= total; end += group_size) {
    groups.offsets.push_back(end);
  }
  return groups;
}

}  // namespace

Result<std::vector<int64_t>> TransposedIota(const std::vector<int64_t>& dims, const std::vector<int64_t>& perm,
                                            int64_t max_ids) {
  // Dimensions of size 1 are legal and add nothing, so the number of dimensions needs its own bound.
  constexpr size_t kMaxDims = 64;
  if (dims.size() > kMaxDims) {
    return MalformedGroups("iota of " + std::to_string(dims.size()) + " dimensions");
  }
  int64_t total = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0) {
      return MalformedGroups("iota dimension " + std::to_string(dim));
    }
    if (dim > max_ids / total) {
      return MalformedGroups("iota of more than " + std::to_string(max_ids) + " ids");
    }
    total *= dim;
  }
  const size_t rank = dims.size();
  if (!perm.empty() && perm.size() != rank) {
    return MalformedGroups("iota transpose of " + std::to_string(perm.size()) + " for " + std::to_string(rank) +
                           " dimensions");
  }
  // strides[i]: step in the original for the i-th dimension of the transposed array.
  std::vector<int64_t> stride_of(rank, 1);
  for (size_t i = rank; i-- > 1;) {
    stride_of[i - 1] = stride_of[i] * dims[i];
  }
  std::vector<int64_t> sizes(rank);
  std::vector<int64_t> strides(rank);
  std::vector<bool> used(rank, false);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t from = perm.empty() ? static_cast<int64_t>(i) : perm[i];
    if (from < 0 || from >= static_cast<int64_t>(rank) || used[from]) {
      return MalformedGroups("iota transpose is not a permutation");
    }
    used[from] = true;
    sizes[i] = dims[from];
    strides[i] = stride_of[from];
  }
  std::vector<int64_t> values;
  values.reserve(total);
  std::vector<int64_t> position(rank, 0);
  int64_t value = 0;
  for (int64_t count = 0; count < total; ++count) {
    values.push_back(value);
    for (size_t i = rank; i-- > 0;) {
      value += strides[i];
      if (++position[i] < sizes[i]) {
        break;
      }
      value -= strides[i] * sizes[i];
      position[i] = 0;
    }
  }
  return values;
}

Status AppendReplicaGroup(std::string_view proto, int64_t max_ids, IdGroups* groups) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == ReplicaGroupField::kReplicaIds && !AppendRepeatedInts(field, &groups->ids)) {
      return MalformedGroups("bad list of ids");
    }
  }
  if (!reader.ok()) {
    return MalformedGroups(reader.error());
  }
  const auto total = static_cast<int64_t>(groups->ids.size());
  if (total == groups->offsets.back()) {
    return MalformedGroups("an empty group");
  }
  if (total > max_ids) {
    return MalformedGroups("more than " + std::to_string(max_ids) + " ids");
  }
  groups->offsets.push_back(total);
  return Status();
}

Result<IdGroups> ReadIotaList(std::string_view proto, int64_t max_ids) {
  int64_t num_groups = 0;
  int64_t group_size = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> perm;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    bool well_formed = true;
    if (field.number == IotaReplicaGroupListField::kNumReplicaGroups) {
      num_groups = field.AsInt();
    } else if (field.number == IotaReplicaGroupListField::kNumDevicesPerGroup) {
      group_size = field.AsInt();
    } else if (field.number == IotaReplicaGroupListField::kIotaReshapeDims) {
      well_formed = AppendRepeatedInts(field, &dims);
    } else if (field.number == IotaReplicaGroupListField::kIotaTransposePerm) {
      well_formed = AppendRepeatedInts(field, &perm);
    }
    if (!well_formed) {
      return MalformedGroups("bad iota");
    }
  }
  if (!reader.ok()) {
    return MalformedGroups(reader.error());
  }
  const std::string text = "iota [" + std::to_string(num_groups) + "," + std::to_string(group_size) + "]";
  if (num_groups <= 0 || group_size <= 0 || num_groups > max_ids / group_size) {
    return MalformedGroups(text + " is empty or more than " + std::to_string(max_ids) + " ids");
  }
  Result<std::vector<int64_t>> ids = TransposedIota(dims, perm, max_ids);
  if (!ids.ok()) {
    return ids.status();
  }
  if (static_cast<int64_t>(ids->size()) != num_groups * group_size) {
    return MalformedGroups(text + " over " + std::to_string(ids->size()) + " ids");
  }
  return SplitEvenly(*std::move(ids), group_size);
}

Result<IdGroups> ReadDeviceList(std::string_view proto, int64_t max_ids) {
  IdGroups groups;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == CollectiveDeviceListField::kReplicaGroups) {
      XLA_SHMEM_RETURN_IF_ERROR(AppendReplicaGroup(field.bytes, max_ids, &groups));
    } else if (field.number == CollectiveDeviceListField::kIotaReplicaGroupList && field.type == WireType::kBytes) {
      // Until 2025 the iota form was nested here (iota_replica_group_list).
      return ReadIotaList(field.bytes, max_ids);
    }
  }
  if (!reader.ok()) {
    return MalformedGroups(reader.error());
  }
  return groups;
}

}  // namespace xla_shmem::hlo
