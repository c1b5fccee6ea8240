// Floats narrower than f32. Widening to f32 is exact; narrowing rounds once, to nearest even.
//
// The conversions of f16 and bf16 have no branches, so that the compiler vectorises loops over them. The 8-bit formats
// are those of ml_dtypes (github.com/jax-ml/ml_dtypes), which XLA's names follow. GPUs run the same code
// (nvshmem/gpu/kernels/reduction.cuh).
#ifndef XLA_SHMEM_THUNKS_NARROW_FLOATS_H_
#define XLA_SHMEM_THUNKS_NARROW_FLOATS_H_

#include <string.h>

#include <array>
#include <cstdint>

#if defined(__CUDACC__) || defined(__CUDA__)
#define XLA_SHMEM_DEVICE __device__
#else
#define XLA_SHMEM_DEVICE
#endif

namespace xla_shmem {

#ifdef __CUDA_ARCH__
__device__ inline float FloatFromBits(uint32_t bits) { return __uint_as_float(bits); }
__device__ inline uint32_t BitsOfFloat(float value) { return __float_as_uint(value); }
#else
inline float FloatFromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}
#endif

struct Bf16 {
  uint16_t bits;

  XLA_SHMEM_DEVICE static float Widen(Bf16 value) { return FloatFromBits(static_cast<uint32_t>(value.bits) << 16); }
  XLA_SHMEM_DEVICE static Bf16 Narrow(float value) {
    const uint32_t bits = BitsOfFloat(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40;
    return {static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded)};
  }
};

struct F16 {
  uint16_t bits;

  // Rebiases the exponent by a multiplication, which is exact for subnormals.
  XLA_SHMEM_DEVICE static float Widen(F16 value) {
    const uint32_t magnitude = static_cast<uint32_t>(value.bits & 0x7fff) << 13;
    const float scaled = FloatFromBits(magnitude) * FloatFromBits(0x77800000);  // 2^112 = 2^(127-15)
    const uint32_t special = magnitude | 0x7f800000;  // infinities and NaNs keep an all-ones exponent
    const uint32_t bits = magnitude >= 0x0f800000 ? special : BitsOfFloat(scaled);
    return FloatFromBits(bits | static_cast<uint32_t>(value.bits & 0x8000) << 16);
  }
  XLA_SHMEM_DEVICE static F16 Narrow(float value) {
    const uint32_t bits = BitsOfFloat(value);
    const uint32_t sign = (bits >> 16) & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    uint32_t half;
    if (magnitude > 0x7f800000) {
      half = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    } else if (magnitude >= 0x47800000) {  // 2^16: too large even before rounding
      half = 0x7c00;
    } else if (magnitude < 0x38800000) {  // below 2^-14: the adder shifts and rounds into place (0.5 has the right ulp)
      half = BitsOfFloat(FloatFromBits(magnitude) + 0.5f) - 0x3f000000;
    } else {
      half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    }
    return {static_cast<uint16_t>(sign | half)};
  }
};

// The meaning of the largest exponent of an 8-bit format.
enum class F8Specials {
  kIeee,  // infinities and NaNs
  kFn,    // finite numbers; all ones is NaN
  kFnuz,  // finite numbers; the sign bit alone is NaN, so there is no negative zero
};

template <int kExponentBits, int kBias, F8Specials kSpecials>
struct F8 {
  uint8_t bits;

  static constexpr int kFractionBits = 7 - kExponentBits;
  static constexpr uint32_t kTopExponent = (1u << kExponentBits) - 1;
  static constexpr uint32_t kInfinity = kTopExponent << kFractionBits;  // of kIeee
  static constexpr uint32_t kLargest = kSpecials == F8Specials::kIeee ? kInfinity - 1
                                       : kSpecials == F8Specials::kFn ? 0x7e
                                                                      : 0x7f;

#ifdef __CUDA_ARCH__
  __device__ static float Widen(F8 value) { return ValueOf(value.bits); }
#else
  static float Widen(F8 value) { return kValues[value.bits]; }
#endif

  XLA_SHMEM_DEVICE static F8 Narrow(float value) {
    const uint32_t bits = BitsOfFloat(value);
    const uint32_t sign = kSpecials == F8Specials::kFnuz ? 0 : (bits >> 24) & 0x80;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return {static_cast<uint8_t>(sign | kNan)};
    constexpr int kShift = 23 - kFractionBits;
    constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
    uint32_t code;
    if (magnitude < kSmallestNormal) {
      // In units of the smallest subnormal; adding 2^23 rounds to a whole number of them.
      constexpr uint32_t kUnitsPerOne = static_cast<uint32_t>(127 + kFractionBits - 1 + kBias) << 23;
      code = BitsOfFloat(FloatFromBits(magnitude) * FloatFromBits(kUnitsPerOne) + 0x1p23f) - 0x4b000000;
    } else {
      const uint32_t rounded = magnitude + ((1u << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1);
      code = (rounded >> kShift) - (static_cast<uint32_t>(127 - kBias) << kFractionBits);
    }
    if (code > kLargest) code = kSpecials == F8Specials::kIeee ? kInfinity : kNan;
    if (kSpecials == F8Specials::kFnuz && code != 0 && code <= kLargest) code |= (bits >> 24) & 0x80;
    return {static_cast<uint8_t>(sign | code)};
  }

 private:
  static constexpr uint32_t kNan = kSpecials == F8Specials::kIeee ? kInfinity | 1u << (kFractionBits - 1)
                                   : kSpecials == F8Specials::kFn ? 0x7f
                                                                  : 0x80;

  XLA_SHMEM_DEVICE static float ValueOf(uint32_t code) {
    const uint32_t exponent = (code >> kFractionBits) & kTopExponent;
    const uint32_t fraction = code & ((1u << kFractionBits) - 1);
    const uint32_t sign = (code & 0x80) << 24;
    float magnitude;
    if (kSpecials == F8Specials::kIeee && exponent == kTopExponent) {
      magnitude = FloatFromBits(fraction == 0 ? 0x7f800000 : 0x7fc00000);
    } else if ((kSpecials == F8Specials::kFn && (code & 0x7f) == 0x7f) ||
               (kSpecials == F8Specials::kFnuz && code == 0x80)) {
      magnitude = FloatFromBits(0x7fc00000);
    } else if (exponent == 0) {
      magnitude =
          static_cast<float>(fraction) * FloatFromBits(static_cast<uint32_t>(127 + 1 - kBias - kFractionBits) << 23);
    } else {
      magnitude = FloatFromBits((exponent + 127 - kBias) << 23 | fraction << (23 - kFractionBits));
    }
    return FloatFromBits(BitsOfFloat(magnitude) | sign);
  }

#ifndef __CUDA_ARCH__
  static std::array<float, 256> AllValues() noexcept {
    std::array<float, 256> values{};
    for (uint32_t code = 0; code < 256; ++code) values[code] = ValueOf(code);
    return values;
  }
  static inline const std::array<float, 256> kValues = AllValues();
#endif
};

using F8E4M3Fn = F8<4, 7, F8Specials::kFn>;
using F8E5M2 = F8<5, 15, F8Specials::kIeee>;
using F8E4M3B11Fnuz = F8<4, 11, F8Specials::kFnuz>;
using F8E4M3Fnuz = F8<4, 8, F8Specials::kFnuz>;
using F8E5M2Fnuz = F8<5, 16, F8Specials::kFnuz>;
using F8E3M4 = F8<3, 3, F8Specials::kIeee>;
using F8E4M3 = F8<4, 7, F8Specials::kIeee>;

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_NARROW_FLOATS_H_
