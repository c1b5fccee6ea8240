#ifndef XLA_SHMEM_TYPES_ELEMENT_TYPE_H_
#define XLA_SHMEM_TYPES_ELEMENT_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xla_shmem {

// XLA's PrimitiveType (xla/xla_data.proto), with its numbers. A module may contain any number, also one without a name
// here: convert with static_cast.
enum class ElementType : int32_t {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kTuple = 13,
  kOpaque = 14,
  kC64 = 15,
  kBf16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3Fn = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11Fnuz = 23,
  kF8E5M2Fnuz = 24,
  kF8E4M3Fnuz = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kS1 = 30,
  kU1 = 31,
  kF4E2M1Fn = 32,
  kF8E8M0Fnu = 33,
  kBuffer = 34,
};

// As HLO text has it: "f32"; "type77" for an unknown number.
std::string ElementTypeName(ElementType type);
std::optional<ElementType> ElementTypeNamed(std::string_view name);
// "f32", or "f32,bf16" with each type once in order of appearance.
std::string ElementTypeNames(const std::vector<ElementType>& types);

// Bits of one element; 0 for tuples, tokens, opaques, buffers and unknown numbers.
int32_t ElementBits(ElementType type);
// The same in bytes, rounded up.
size_t ElementBytes(ElementType type);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_ELEMENT_TYPE_H_
