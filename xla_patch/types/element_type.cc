#include "xla_patch/types/element_type.h"

#include <algorithm>

namespace xla_shmem {
namespace {

struct ElementTypeInfo {
  ElementType type;
  const char* name;
  int32_t bits;
};

constexpr ElementTypeInfo kElementTypes[] = {
    {ElementType::kPred, "pred", 8},
    {ElementType::kS8, "s8", 8},
    {ElementType::kS16, "s16", 16},
    {ElementType::kS32, "s32", 32},
    {ElementType::kS64, "s64", 64},
    {ElementType::kU8, "u8", 8},
    {ElementType::kU16, "u16", 16},
    {ElementType::kU32, "u32", 32},
    {ElementType::kU64, "u64", 64},
    {ElementType::kF16, "f16", 16},
    {ElementType::kF32, "f32", 32},
    {ElementType::kF64, "f64", 64},
    {ElementType::kTuple, "tuple", 0},
    {ElementType::kOpaque, "opaque", 0},
    {ElementType::kC64, "c64", 64},
    {ElementType::kBf16, "bf16", 16},
    {ElementType::kToken, "token", 0},
    {ElementType::kC128, "c128", 128},
    {ElementType::kF8E5M2, "f8e5m2", 8},
    {ElementType::kF8E4M3Fn, "f8e4m3fn", 8},
    {ElementType::kS4, "s4", 4},
    {ElementType::kU4, "u4", 4},
    {ElementType::kF8E4M3B11Fnuz, "f8e4m3b11fnuz", 8},
    {ElementType::kF8E5M2Fnuz, "f8e5m2fnuz", 8},
    {ElementType::kF8E4M3Fnuz, "f8e4m3fnuz", 8},
    {ElementType::kS2, "s2", 2},
    {ElementType::kU2, "u2", 2},
    {ElementType::kF8E4M3, "f8e4m3", 8},
    {ElementType::kF8E3M4, "f8e3m4", 8},
    {ElementType::kS1, "s1", 1},
    {ElementType::kU1, "u1", 1},
    {ElementType::kF4E2M1Fn, "f4e2m1fn", 4},
    {ElementType::kF8E8M0Fnu, "f8e8m0fnu", 8},
    {ElementType::kBuffer, "buffer", 0},
};

const ElementTypeInfo* Find(ElementType type) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (info.type == type) {
      return &info;
    }
  }
  return nullptr;
}

}  // namespace

std::string ElementTypeName(ElementType type) {
  const ElementTypeInfo* info = Find(type);
  return info != nullptr ? info->name : "type" + std::to_string(static_cast<int32_t>(type));
}

std::optional<ElementType> ElementTypeNamed(std::string_view name) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (name == info.name) {
      return info.type;
    }
  }
  return std::nullopt;
}

std::string ElementTypeNames(const std::vector<ElementType>& types) {
  std::string names;
  for (auto type = types.begin(); type != types.end(); ++type) {
    if (std::find(types.begin(), type, *type) == type) {
      names += (names.empty() ? "" : ",") + ElementTypeName(*type);
    }
  }
  return names;
}

int32_t ElementBits(ElementType type) {
  const ElementTypeInfo* info = Find(type);
  return info != nullptr ? info->bits : 0;
}

size_t ElementBytes(ElementType type) { return (static_cast<size_t>(ElementBits(type)) + 7) / 8; }

}  // namespace xla_shmem
