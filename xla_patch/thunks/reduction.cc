#include "xla_patch/thunks/reduction.h"

#include <string.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace xla_shmem {
namespace {

// Elements reduced at a time: the accumulators stay in the L1 cache and the output may alias an input.
constexpr size_t kBlock = 1024;

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

float FromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

uint32_t ToBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float Widen(Bf16 value) { return FromBits(static_cast<uint32_t>(value.bits) << 16); }

Bf16 NarrowBf16(float value) {
  const uint32_t bits = ToBits(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded)};
}

// Branch-free half conversions: rebias the exponent by a multiplication, which handles subnormals exactly.
float Widen(F16 value) {
  const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fff) << 13;
  const float scaled = FromBits(magnitude) * FromBits(0x77800000);  // 2^112 = 2^(127-15)
  const uint32_t special = magnitude | 0x7f800000;                  // infinities and NaNs keep an all-ones exponent
  const uint32_t bits = magnitude >= 0x0f800000 ? special : ToBits(scaled);
  return FromBits(bits | static_cast<uint32_t>(value.bits & 0x8000) << 16);
}

F16 NarrowF16(float value) {
  const uint32_t bits = ToBits(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 0x47800000) {  // 2^16: too large even before rounding
    half = 0x7c00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: let the adder shift and round into place (0.5 has the right ulp)
    half = ToBits(FromBits(magnitude) + 0.5f) - 0x3f000000;
  } else {
    half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}

// XLA's threads flush denormals, ours do not; an all-reduce must give the same bits on whichever thread it runs.
class ScopedIeeeDenormals {
 public:
#if defined(__x86_64__)
  ScopedIeeeDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ & ~kFlushBits); }
  ~ScopedIeeeDenormals() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned kFlushBits = 0x8040;  // FTZ and DAZ of MXCSR
  unsigned saved_;
#elif defined(__aarch64__)
  ScopedIeeeDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(saved_ & ~(uint64_t{1} << 24)));  // FZ
  }
  ~ScopedIeeeDenormals() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }

 private:
  uint64_t saved_;
#endif
};

template <typename T>
struct Traits {
  // Integers wrap: unsigned arithmetic has no overflow.
  using Accumulator = T;
  static T Load(T value) { return value; }
  static T Store(T value) { return value; }
};
template <>
struct Traits<F16> {
  using Accumulator = float;
  static float Load(F16 value) { return Widen(value); }
  static F16 Store(float value) { return NarrowF16(value); }
};
template <>
struct Traits<Bf16> {
  using Accumulator = float;
  static float Load(Bf16 value) { return Widen(value); }
  static Bf16 Store(float value) { return NarrowBf16(value); }
};

template <typename T>
T Wrap(T a, T b, bool multiply) {
  using Unsigned = std::make_unsigned_t<T>;
  // Through uint64: two uint16 would be promoted to int, whose product may overflow.
  const uint64_t x = static_cast<Unsigned>(a), y = static_cast<Unsigned>(b);
  return static_cast<T>(static_cast<Unsigned>(multiply ? x * y : x + y));
}

struct Sum {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) return Wrap(a, b, false);
    return a + b;
  }
};
struct Prod {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) return Wrap(a, b, true);
    return a * b;
  }
};
struct Min {
  template <typename T>
  static T Apply(T a, T b) {
    return a != a || a < b ? a : b;  // a NaN stays; a NaN in b makes `a < b` false
  }
};
struct Max {
  template <typename T>
  static T Apply(T a, T b) {
    return a != a || a > b ? a : b;
  }
};

template <typename T, typename Operator>
void ReduceTyped(const char* const* inputs, size_t count, size_t elements, char* output) {
  using Accumulator = typename Traits<T>::Accumulator;
  Accumulator sums[kBlock];
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    const size_t size = std::min(kBlock, elements - begin);
    const T* first = reinterpret_cast<const T*>(inputs[0]) + begin;
    for (size_t i = 0; i < size; ++i) sums[i] = Traits<T>::Load(first[i]);
    for (size_t input = 1; input < count; ++input) {
      const T* next = reinterpret_cast<const T*>(inputs[input]) + begin;
      for (size_t i = 0; i < size; ++i) sums[i] = Operator::Apply(sums[i], Traits<T>::Load(next[i]));
    }
    T* out = reinterpret_cast<T*>(output) + begin;
    for (size_t i = 0; i < size; ++i) out[i] = Traits<T>::Store(sums[i]);
  }
}

template <typename T>
void ReduceKind(ReductionKind kind, const char* const* inputs, size_t count, size_t elements, char* output) {
  switch (kind) {
    case ReductionKind::kSum:
      return ReduceTyped<T, Sum>(inputs, count, elements, output);
    case ReductionKind::kProd:
      return ReduceTyped<T, Prod>(inputs, count, elements, output);
    case ReductionKind::kMin:
      return ReduceTyped<T, Min>(inputs, count, elements, output);
    case ReductionKind::kMax:
      return ReduceTyped<T, Max>(inputs, count, elements, output);
  }
}

}  // namespace

size_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kS8:
    case ElementType::kU8:
      return 1;
    case ElementType::kF16:
    case ElementType::kBf16:
    case ElementType::kS16:
    case ElementType::kU16:
      return 2;
    case ElementType::kF32:
    case ElementType::kS32:
    case ElementType::kU32:
      return 4;
    case ElementType::kF64:
    case ElementType::kS64:
    case ElementType::kU64:
      return 8;
  }
  return 0;
}

void Reduce(ElementType type, ReductionKind kind, const char* const* inputs, size_t count, size_t elements,
            char* output) {
  const ScopedIeeeDenormals ieee;
  switch (type) {
    case ElementType::kF32:
      return ReduceKind<float>(kind, inputs, count, elements, output);
    case ElementType::kF64:
      return ReduceKind<double>(kind, inputs, count, elements, output);
    case ElementType::kF16:
      return ReduceKind<F16>(kind, inputs, count, elements, output);
    case ElementType::kBf16:
      return ReduceKind<Bf16>(kind, inputs, count, elements, output);
    case ElementType::kS8:
      return ReduceKind<int8_t>(kind, inputs, count, elements, output);
    case ElementType::kS16:
      return ReduceKind<int16_t>(kind, inputs, count, elements, output);
    case ElementType::kS32:
      return ReduceKind<int32_t>(kind, inputs, count, elements, output);
    case ElementType::kS64:
      return ReduceKind<int64_t>(kind, inputs, count, elements, output);
    case ElementType::kU8:
      return ReduceKind<uint8_t>(kind, inputs, count, elements, output);
    case ElementType::kU16:
      return ReduceKind<uint16_t>(kind, inputs, count, elements, output);
    case ElementType::kU32:
      return ReduceKind<uint32_t>(kind, inputs, count, elements, output);
    case ElementType::kU64:
      return ReduceKind<uint64_t>(kind, inputs, count, elements, output);
  }
}

}  // namespace xla_shmem
