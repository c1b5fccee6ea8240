#include "xla_patch/assigner/collective_spec.h"

#include <algorithm>

namespace xla_shmem {
namespace {

struct ElementTypeInfo {
  int32_t number;
  const char* name;
  int32_t bits;
};

// xla/xla_data.proto, enum PrimitiveType.
constexpr ElementTypeInfo kElementTypes[] = {
    {1, "pred", 8},      {2, "s8", 8},           {3, "s16", 16},          {4, "s32", 32},     {5, "s64", 64},
    {6, "u8", 8},        {7, "u16", 16},         {8, "u32", 32},          {9, "u64", 64},     {10, "f16", 16},
    {11, "f32", 32},     {12, "f64", 64},        {13, "tuple", 0},        {14, "opaque", 0},  {15, "c64", 64},
    {16, "bf16", 16},    {17, "token", 0},       {18, "c128", 128},       {19, "f8e5m2", 8},  {20, "f8e4m3fn", 8},
    {21, "s4", 4},       {22, "u4", 4},          {23, "f8e4m3b11fnuz", 8}, {24, "f8e5m2fnuz", 8}, {25, "f8e4m3fnuz", 8},
    {26, "s2", 2},       {27, "u2", 2},          {28, "f8e4m3", 8},       {29, "f8e3m4", 8},  {30, "s1", 1},
    {31, "u1", 1},       {32, "f4e2m1fn", 4},    {33, "f8e8m0fnu", 8},    {34, "buffer", 0},
};

const ElementTypeInfo* FindElementType(int32_t number) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (info.number == number) {
      return &info;
    }
  }
  return nullptr;
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
  }
  return "none";
}

std::string ElementTypeName(int32_t type) {
  const ElementTypeInfo* info = FindElementType(type);
  return info != nullptr ? info->name : "type" + std::to_string(type);
}

int32_t ElementTypeBits(int32_t type) {
  const ElementTypeInfo* info = FindElementType(type);
  return info != nullptr ? info->bits : 0;
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
