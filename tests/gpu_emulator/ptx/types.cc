#include "ptx/types.h"

#include <map>

namespace ptx {

Type TypeOf(const std::string& name) {
  static const std::map<std::string, Type> types = {
      {"pred", Type::kPred},     {"b8", Type::kB8},   {"b16", Type::kB16},     {"b32", Type::kB32},
      {"b64", Type::kB64},       {"u8", Type::kU8},   {"u16", Type::kU16},     {"u32", Type::kU32},
      {"u64", Type::kU64},       {"s8", Type::kS8},   {"s16", Type::kS16},     {"s32", Type::kS32},
      {"s64", Type::kS64},       {"f16", Type::kF16}, {"f16x2", Type::kF16x2}, {"bf16", Type::kBf16},
      {"bf16x2", Type::kBf16x2}, {"f32", Type::kF32}, {"f64", Type::kF64}};
  const auto found = types.find(name);
  return found == types.end() ? Type::kNone : found->second;
}

size_t BytesOf(Type type) {
  switch (type) {
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBf16:
      return 2;
    case Type::kB32:
    case Type::kU32:
    case Type::kS32:
    case Type::kF32:
    case Type::kF16x2:
    case Type::kBf16x2:
      return 4;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace ptx
