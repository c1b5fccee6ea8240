#include "xla_patch/hlo/proto/groups.h"

#include <algorithm>
#include <string>
#include <utility>

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
  for (int64_t end = group_size; end <= total; end += group_size) groups.offsets.push_back(end);
  return groups;
}

// iota(product(dims)) reshaped to `dims`, transposed by `perm` and flattened. An empty `perm` is the identity.
// `max_ids`, here and below, bounds the ids that may be allocated; a compact form that stands for more is an error.
Result<std::vector<int64_t>> TransposedIota(const std::vector<int64_t>& dims, const std::vector<int64_t>& perm,
                                            int64_t max_ids) {
  // Dimensions of size 1 are legal and add nothing, so the number of dimensions needs its own bound.
  constexpr size_t kMaxDims = 64;
  if (dims.size() > kMaxDims) return MalformedGroups("iota of " + std::to_string(dims.size()) + " dimensions");
  int64_t total = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0) return MalformedGroups("iota dimension " + std::to_string(dim));
    if (dim > max_ids / total) return MalformedGroups("iota of more than " + std::to_string(max_ids) + " ids");
    total *= dim;
  }
  const size_t rank = dims.size();
  if (!perm.empty() && perm.size() != rank) {
    return MalformedGroups("iota transpose of " + std::to_string(perm.size()) + " for " + std::to_string(rank) +
                           " dimensions");
  }
  // strides[i]: step in the original for the i-th dimension of the transposed array.
  std::vector<int64_t> stride_of(rank, 1);
  for (size_t i = rank; i-- > 1;) stride_of[i - 1] = stride_of[i] * dims[i];
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
      if (++position[i] < sizes[i]) break;
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
  if (!reader.ok()) return MalformedGroups(reader.error());
  const auto total = static_cast<int64_t>(groups->ids.size());
  if (total == groups->offsets.back()) return MalformedGroups("an empty group");
  if (total > max_ids) return MalformedGroups("more than " + std::to_string(max_ids) + " ids");
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
    if (!well_formed) return MalformedGroups("bad iota");
  }
  if (!reader.ok()) return MalformedGroups(reader.error());
  const std::string text = "iota [" + std::to_string(num_groups) + "," + std::to_string(group_size) + "]";
  if (num_groups <= 0 || group_size <= 0 || num_groups > max_ids / group_size) {
    return MalformedGroups(text + " is empty or more than " + std::to_string(max_ids) + " ids");
  }
  Result<std::vector<int64_t>> ids = TransposedIota(dims, perm, max_ids);
  if (!ids.ok()) return ids.status();
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
  if (!reader.ok()) return MalformedGroups(reader.error());
  return groups;
}

constexpr size_t kMaxAxes = 64;

struct Mesh {
  std::vector<int64_t> axis_sizes;
  std::vector<int64_t> device_ids;
  bool has_transform = false;
  std::vector<int64_t> reshape_dims;
  std::vector<int64_t> transpose_perm;
};

struct AxisRef {
  int64_t axis = 0;
  bool is_sub_axis = false;
  int64_t pre_size = 1;  // product of the sub-axis sizes to the left
  int64_t size = 0;
};

Status MalformedMeshGroups(const std::string& text) { return Status::Error("replica groups over a mesh: " + text); }

bool ReadMeshAxis(std::string_view proto, Mesh* mesh) {
  int64_t size = 0;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == MeshAxisField::kSize) size = field.AsInt();
  }
  mesh->axis_sizes.push_back(size);
  return reader.ok();
}

bool ReadTransform(std::string_view proto, Mesh* mesh) {
  mesh->has_transform = true;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == IotaTransformField::kReshapeDims && !AppendRepeatedInts(field, &mesh->reshape_dims)) {
      return false;
    }
    if (field.number == IotaTransformField::kTransposePerm && !AppendRepeatedInts(field, &mesh->transpose_perm)) {
      return false;
    }
  }
  return reader.ok();
}

bool ReadMesh(std::string_view proto, Mesh* mesh) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    bool well_formed = true;
    if (field.number == MeshField::kAxes) {
      well_formed = ReadMeshAxis(field.bytes, mesh);
    } else if (field.number == MeshField::kDeviceIds) {
      well_formed = AppendRepeatedInts(field, &mesh->device_ids);
    } else if (field.number == MeshField::kIotaTransform) {
      well_formed = ReadTransform(field.bytes, mesh);
    }
    if (!well_formed) return false;
  }
  return reader.ok();
}

bool ReadAxisRef(std::string_view proto, AxisRef* ref) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == AxisRefField::kMeshAxisIndex) {
      ref->axis = field.AsInt();
    } else if (field.number == AxisRefField::kSubAxisInfo) {
      ref->is_sub_axis = true;
      ref->pre_size = 0;
      FieldReader inner(field.bytes);
      for (Field sub; inner.Next(&sub);) {
        if (sub.number == SubAxisField::kPreSize) {
          ref->pre_size = sub.AsInt();
        } else if (sub.number == SubAxisField::kSize) {
          ref->size = sub.AsInt();
        }
      }
      if (!inner.ok()) return false;
    }
  }
  return reader.ok();
}

// Devices in mesh order.
Result<std::vector<int64_t>> MeshDevices(const Mesh& mesh, int64_t max_ids) {
  if (mesh.axis_sizes.size() > kMaxAxes) return MalformedMeshGroups(std::to_string(mesh.axis_sizes.size()) + " axes");
  int64_t total = 1;
  for (const int64_t size : mesh.axis_sizes) {
    if (size <= 0 || size > max_ids / total) {
      return MalformedMeshGroups("axis of size " + std::to_string(size) + ", or more than " + std::to_string(max_ids) +
                                 " devices");
    }
    total *= size;
  }
  if (mesh.device_ids.empty() && mesh.axis_sizes.empty()) return MalformedMeshGroups("an empty mesh");
  Result<std::vector<int64_t>> devices =
      mesh.device_ids.empty()
          ? TransposedIota(mesh.has_transform ? mesh.reshape_dims : mesh.axis_sizes, mesh.transpose_perm, max_ids)
          : Result<std::vector<int64_t>>(mesh.device_ids);
  if (devices.ok() && static_cast<int64_t>(devices->size()) != total) {
    return MalformedMeshGroups(std::to_string(devices->size()) + " device ids for " + std::to_string(total) +
                               " mesh positions");
  }
  return devices;
}

// Splits mesh axis `axis` so that each of its sub-axes in `refs` is a dimension of its own. dimension_of[i] is set to
// the position in `dims`.
Status SplitAxis(const Mesh& mesh, int64_t axis, const std::vector<AxisRef>& refs, std::vector<int64_t>* dims,
                 std::vector<int64_t>* dimension_of) {
  std::vector<size_t> order;
  for (size_t i = 0; i < refs.size(); ++i) {
    if (refs[i].axis == axis) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return refs[a].pre_size < refs[b].pre_size; });
  const int64_t full = mesh.axis_sizes[axis];
  int64_t left = 1;  // product of the dimensions emitted for this axis
  for (const size_t i : order) {
    const int64_t pre_size = refs[i].is_sub_axis ? refs[i].pre_size : 1;
    const int64_t size = refs[i].is_sub_axis ? refs[i].size : full;
    if (pre_size < left || pre_size % left != 0 || size < 1 || full % pre_size != 0 || (full / pre_size) % size != 0) {
      return MalformedMeshGroups("sub-axis (" + std::to_string(pre_size) + ")" + std::to_string(size) +
                                 " does not divide axis " + std::to_string(axis) + " of size " + std::to_string(full) +
                                 ", or overlaps another");
    }
    if (pre_size != left) dims->push_back(pre_size / left);
    (*dimension_of)[i] = static_cast<int64_t>(dims->size());
    dims->push_back(size);
    left = pre_size * size;
  }
  if (left != full) dims->push_back(full / left);
  return Status();
}

// Replica groups as axes of a mesh (xla.MeshAxesReplicaGroupListProto): the devices that differ only in the named axes
// form a group.
Result<IdGroups> ReadMeshAxesList(std::string_view proto, int64_t max_ids) {
  Mesh mesh;
  std::vector<AxisRef> refs;
  bool well_formed = true;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == MeshAxesReplicaGroupListField::kMesh) {
      well_formed = ReadMesh(field.bytes, &mesh) && well_formed;
    } else if (field.number == MeshAxesReplicaGroupListField::kAxes) {
      refs.emplace_back();
      well_formed = ReadAxisRef(field.bytes, &refs.back()) && well_formed;
    }
  }
  if (!reader.ok() || !well_formed) return MalformedMeshGroups("malformed");
  const Result<std::vector<int64_t>> devices = MeshDevices(mesh, max_ids);
  if (!devices.ok()) return devices.status();
  if (refs.size() > kMaxAxes) return MalformedMeshGroups(std::to_string(refs.size()) + " axis references");
  const auto num_axes = static_cast<int64_t>(mesh.axis_sizes.size());
  for (const AxisRef& ref : refs) {
    if (ref.axis < 0 || ref.axis >= num_axes) {
      return MalformedMeshGroups("axis " + std::to_string(ref.axis) + " of " + std::to_string(num_axes));
    }
  }
  std::vector<int64_t> dims;
  std::vector<int64_t> dimension_of(refs.size(), 0);
  for (int64_t axis = 0; axis < num_axes; ++axis) {
    XLA_SHMEM_RETURN_IF_ERROR(SplitAxis(mesh, axis, refs, &dims, &dimension_of));
  }
  // The grouped dimensions go last, in the order the axes are listed: that is the order inside a group.
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
    if (std::find(dimension_of.begin(), dimension_of.end(), i) == dimension_of.end()) perm.push_back(i);
  }
  int64_t group_size = 1;
  for (const int64_t dimension : dimension_of) {
    perm.push_back(dimension);
    group_size *= dims[dimension];
  }
  const Result<std::vector<int64_t>> positions = TransposedIota(dims, perm, max_ids);
  if (!positions.ok()) return positions.status();
  IdGroups groups;
  for (const int64_t position : *positions) {
    groups.ids.push_back((*devices)[position]);
    if (static_cast<int64_t>(groups.ids.size()) % group_size == 0) {
      groups.offsets.push_back(static_cast<int64_t>(groups.ids.size()));
    }
  }
  return groups;
}

Result<IdGroups> ReadGroups(const GroupFields& fields, int64_t max_ids) {
  if (fields.list_field == InstructionField::kIotaCollectiveDeviceList) return ReadIotaList(fields.list, max_ids);
  if (fields.list_field == InstructionField::kMeshAxesReplicaGroupList) return ReadMeshAxesList(fields.list, max_ids);
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
  if (!ids.ok()) return ids.status();
  return ExpandGroups(*std::move(ids), mode, assignment);
}

}  // namespace xla_shmem::hlo
