#include "xla_patch/assigner/collective_spec.h"

#include <algorithm>
#include <unordered_map>

namespace xla_shmem {
namespace {

struct ElementTypeInfo {
  const char* name;
  int32_t number;
  int32_t bits;
};

// xla/xla_data.proto, enum PrimitiveType.
constexpr ElementTypeInfo kElementTypes[] = {
    {"pred", 1, 8},   {"s8", 2, 8},        {"s16", 3, 16},           {"s32", 4, 32},        {"s64", 5, 64},
    {"u8", 6, 8},     {"u16", 7, 16},      {"u32", 8, 32},           {"u64", 9, 64},        {"f16", 10, 16},
    {"f32", 11, 32},  {"f64", 12, 64},     {"tuple", 13, 0},         {"opaque", 14, 0},     {"c64", 15, 64},
    {"bf16", 16, 16}, {"token", 17, 0},    {"c128", 18, 128},        {"f8e5m2", 19, 8},     {"f8e4m3fn", 20, 8},
    {"s4", 21, 4},    {"u4", 22, 4},       {"f8e4m3b11fnuz", 23, 8}, {"f8e5m2fnuz", 24, 8}, {"f8e4m3fnuz", 25, 8},
    {"s2", 26, 2},    {"u2", 27, 2},       {"f8e4m3", 28, 8},        {"f8e3m4", 29, 8},     {"s1", 30, 1},
    {"u1", 31, 1},    {"f4e2m1fn", 32, 4}, {"f8e8m0fnu", 33, 8},     {"buffer", 34, 0},
};

const ElementTypeInfo* FindElementType(int32_t number) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (info.number == number) {
      return &info;
    }
  }
  return nullptr;
}

GroupCount CountConnected(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  std::unordered_map<int64_t, int64_t> parent;
  const auto root = [&](int64_t device) {
    parent.emplace(device, device);
    while (parent[device] != device) {
      device = parent[device] = parent[parent[device]];
    }
    return device;
  };
  for (const auto& [source, target] : pairs) {
    const int64_t from = root(source);
    parent[from] = root(target);
  }
  GroupCount count;
  std::unordered_map<int64_t, int64_t> sizes;
  for (const auto& entry : std::unordered_map<int64_t, int64_t>(parent)) {
    count.largest = std::max(count.largest, ++sizes[root(entry.first)]);
  }
  count.number = static_cast<int64_t>(sizes.size());
  return count;
}

}  // namespace

const char* OpName(OpKind op) {
  switch (op) {
    case OpKind::kAllReduce:
      return "all-reduce";
    case OpKind::kCollectivePermute:
      return "collective-permute";
    case OpKind::kAllGather:
      return "all-gather";
    case OpKind::kReduceScatter:
      return "reduce-scatter";
    case OpKind::kAllToAll:
      return "all-to-all";
    case OpKind::kCollectiveBroadcast:
      return "collective-broadcast";
    case OpKind::kRaggedAllToAll:
      return "ragged-all-to-all";
  }
  return "unknown";
}

std::optional<OpKind> OpNamed(std::string_view name) {
  for (const OpKind op : {OpKind::kAllReduce, OpKind::kCollectivePermute, OpKind::kAllGather, OpKind::kReduceScatter,
                          OpKind::kAllToAll, OpKind::kCollectiveBroadcast, OpKind::kRaggedAllToAll}) {
    if (name == OpName(op)) {
      return op;
    }
  }
  return std::nullopt;
}

bool IsReducing(OpKind op) { return op == OpKind::kAllReduce || op == OpKind::kReduceScatter; }

const char* ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return "none";
    case Reduction::kSum:
      return "sum";
    case Reduction::kProd:
      return "prod";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kAnd:
      return "and";
    case Reduction::kOr:
      return "or";
    case Reduction::kXor:
      return "xor";
  }
  return "none";
}

int64_t DeviceGroups::common_size() const {
  const int64_t first = size() > 0 ? offsets[1] - offsets[0] : 0;
  for (int64_t group = 1; group < size(); ++group) {
    if (offsets[group + 1] - offsets[group] != first) {
      return 0;
    }
  }
  return first;
}

std::string ElementTypeName(int32_t type) {
  const ElementTypeInfo* info = FindElementType(type);
  return info != nullptr ? info->name : "type" + std::to_string(type);
}

std::optional<int32_t> ElementTypeNamed(std::string_view name) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (name == info.name) {
      return info.number;
    }
  }
  return std::nullopt;
}

int32_t ElementTypeBits(int32_t type) {
  const ElementTypeInfo* info = FindElementType(type);
  return info != nullptr ? info->bits : 0;
}

GroupCount CountGroups(const CollectiveSpec& spec) {
  if (spec.op == OpKind::kCollectivePermute) {
    return CountConnected(spec.pairs);
  }
  GroupCount count{spec.groups.size(), 0};
  for (int64_t i = 0; i < count.number; ++i) {
    count.largest = std::max(count.largest, spec.groups.offsets[i + 1] - spec.groups.offsets[i]);
  }
  return count;
}

std::string ElementTypeNames(const std::vector<int32_t>& types) {
  std::string names;
  for (auto type = types.begin(); type != types.end(); ++type) {
    if (std::find(types.begin(), type, *type) == type) {
      names += (names.empty() ? "" : ",") + ElementTypeName(*type);
    }
  }
  return names;
}

}  // namespace xla_shmem
