// The types of PTX and what they are in C++.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "ptx/warp.h"
#include "xla_patch/thunks/narrow_floats.h"

namespace ptx {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kF32,
  kF64,
};

using xla_shmem::Bf16;
using xla_shmem::F16;

// Two values in a register of 32 bits.
template <typename T>
struct Pair {
  T low, high;
};

// kNone if `name` ("f32") is none.
Type TypeOf(const std::string& name);
// 0 for a predicate.
size_t BytesOf(Type type);
inline bool IsSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }
inline bool IsFloat(Type type) { return type >= Type::kF16; }

template <typename T>
struct Tag {
  using Of = T;
};

// function(Tag<T>) for the C++ type of `type`; null for types that the instructions concerned do not have.
template <typename Function>
Handler ForInteger(Type type, Function function) {
  switch (type) {
    case Type::kU16:
    case Type::kB16:
      return function(Tag<uint16_t>());
    case Type::kU32:
    case Type::kB32:
      return function(Tag<uint32_t>());
    case Type::kU64:
    case Type::kB64:
      return function(Tag<uint64_t>());
    case Type::kS16:
      return function(Tag<int16_t>());
    case Type::kS32:
      return function(Tag<int32_t>());
    case Type::kS64:
      return function(Tag<int64_t>());
    default:
      return nullptr;
  }
}

template <typename Function>
Handler ForUnsigned(Type type, Function function) {
  switch (BytesOf(type)) {
    case 2:
      return function(Tag<uint16_t>());
    case 4:
      return function(Tag<uint32_t>());
    case 8:
      return function(Tag<uint64_t>());
    default:
      return nullptr;
  }
}

template <typename Function>
Handler ForScalarFloat(Type type, Function function) {
  switch (type) {
    case Type::kF32:
      return function(Tag<float>());
    case Type::kF64:
      return function(Tag<double>());
    case Type::kF16:
      return function(Tag<F16>());
    case Type::kBf16:
      return function(Tag<Bf16>());
    default:
      return nullptr;
  }
}

template <typename Function>
Handler ForFloat(Type type, Function function) {
  switch (type) {
    case Type::kF16x2:
      return function(Tag<Pair<F16>>());
    case Type::kBf16x2:
      return function(Tag<Pair<Bf16>>());
    default:
      return ForScalarFloat(type, function);
  }
}

// How values of a floating-point type are calculated: f16 and bf16 in f32, which has more than twice their digits, so
// that a second rounding of a sum, a product or a quotient changes nothing.
template <typename T>
struct Float {
  using Wide = float;
  static float Widen(T value) { return T::Widen(value); }
  static T Narrow(float value) { return value != value ? T{0x7fff} : T::Narrow(value); }
};
template <>
struct Float<float> {
  using Wide = float;
  static float Widen(float value) { return value; }
  static float Narrow(float value) { return value != value ? xla_shmem::FloatFromBits(0x7fffffff) : value; }
};
template <>
struct Float<double> {
  using Wide = double;
  static double Widen(double value) { return value; }
  static double Narrow(double value) { return value; }
};

// Rounded toward the odd neighbour if it is not exact, so that a later rounding to fewer digits is the only one.
template <typename Value>
float OddFloat(Value value) {
  const float rounded = static_cast<float>(value);
  if (static_cast<Value>(rounded) == value || std::isnan(value) || std::isinf(value)) return rounded;
  uint32_t bits = xla_shmem::BitsOfFloat(rounded);
  const bool away = std::fabs(static_cast<Value>(rounded)) > std::fabs(value);
  if (away) bits -= 1;  // truncated
  return xla_shmem::FloatFromBits(bits | 1);
}

inline float FlushDenormal(float value) {
  return std::fabs(value) < xla_shmem::FloatFromBits(0x00800000) ? std::copysign(0.0f, value) : value;
}

}  // namespace ptx
