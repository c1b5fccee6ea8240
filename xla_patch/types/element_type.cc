#include "xla_patch/types/element_type.h"

#include <algorithm>

namespace xla_shmem {
namespace {

struct ElementTypeInfo {
  ElementType type;
  int32_t bits;
  const char* name;
};

constexpr ElementTypeInfo kElementTypes[] = {
    {ElementType::kPred, 8, "pred"},
    {ElementType::kS8, 8, "s8"},
    {ElementType::kS16, 16, "s16"},
    {ElementType::kS32, 32, "s32"},
    {ElementType::kS64, 64, "s64"},
    {ElementType::kU8, 8, "u8"},
    {ElementType::kU16, 16, "u16"},
    {ElementType::kU32, 32, "u32"},
    {ElementType::kU64, 64, "u64"},
    {ElementType::kF16, 16, "f16"},
    {ElementType::kF32, 32, "f32"},
    {ElementType::kF64, 64, "f64"},
    {ElementType::kTuple, 0, "tuple"},
    {ElementType::kOpaque, 0, "opaque"},
    {ElementType::kC64, 64, "c64"},
    {ElementType::kBf16, 16, "bf16"},
    {ElementType::kToken, 0, "token"},
    {ElementType::kC128, 128, "c128"},
    {ElementType::kF8E5M2, 8, "f8e5m2"},
    {ElementType::kF8E4M3Fn, 8, "f8e4m3fn"},
    {ElementType::kS4, 4, "s4"},
    {ElementType::kU4, 4, "u4"},
    {ElementType::kF8E4M3B11Fnuz, 8, "f8e4m3b11fnuz"},
    {ElementType::kF8E5M2Fnuz, 8, "f8e5m2fnuz"},
    {ElementType::kF8E4M3Fnuz, 8, "f8e4m3fnuz"},
    {ElementType::kS2, 2, "s2"},
    {ElementType::kU2, 2, "u2"},
    {ElementType::kF8E4M3, 8, "f8e4m3"},
    {ElementType::kF8E3M4, 8, "f8e3m4"},
    {ElementType::kS1, 1, "s1"},
    {ElementType::kU1, 1, "u1"},
    {ElementType::kF4E2M1Fn, 4, "f4e2m1fn"},
    {ElementType::kF8E8M0Fnu, 8, "f8e8m0fnu"},
    {ElementType::kBuffer, 0, "buffer"},
};

const ElementTypeInfo* Find(ElementType type) {
  for (const ElementTypeInfo& info : kElementTypes) {
    if (info.type == type) return &info;
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
    if (name == info.name) return info.type;
  }
  return std::nullopt;
}

std::string ElementTypeNames(const std::vector<ElementType>& types) {
  std::string names;
  for (auto type = types.begin(); type != types.end(); ++type) {
    if (std::find(types.begin(), type, *type) == type) names += (names.empty() ? "" : ",") + ElementTypeName(*type);
  }
  return names;
}

int32_t ElementBits(ElementType type) {
  const ElementTypeInfo* info = Find(type);
  return info != nullptr ? info->bits : 0;
}

size_t ElementBytes(ElementType type) { return (static_cast<size_t>(ElementBits(type)) + 7) / 8; }

}  // namespace xla_shmem
