// Half-precision conversions, special values, rounding and the floating-point environment.
#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tests/thunks/reduce_all.h"
#include "xla_patch/thunks/reduction.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace xla_shmem {
namespace {

constexpr ReductionKind kKinds[] = {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
                                    ReductionKind::kMax};

uint32_t Bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The value of a 16-bit float with this many exponent and fraction bits, by the definition of the format.
double Value(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

double F16Value(uint16_t bits) { return Value(bits, 5, 10); }
double Bf16Value(uint16_t bits) { return Value(bits, 8, 7); }

// The 16-bit float nearest to `value`, ties to even, by search.
uint16_t Nearest(double value, double (*value_of)(uint16_t), uint16_t infinity) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  uint16_t low = 0, high = infinity;  // value_of(low) <= magnitude < value_of(high)
  if (magnitude == INFINITY) return sign | infinity;
  while (high - low > 1) {
    const uint16_t middle = low + (high - low) / 2;
    (value_of(middle) <= magnitude ? low : high) = middle;
  }
  // Above the largest finite value, compares with the next value that one more exponent would give.
  const double above = high == infinity ? 2 * value_of(low) - value_of(low - 1) : value_of(high);
  const double to_low = magnitude - value_of(low), to_high = above - magnitude;
  if (to_low < to_high || (to_low == to_high && low % 2 == 0)) return sign | low;
  return sign | high;
}

void CheckRoundTrip(ElementType type, double (*value_of)(uint16_t)) {
  std::vector<uint16_t> all(65536);
  for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
  // The sum of one input is a widening and a narrowing.
  const auto back = ReduceAll<uint16_t>(type, ReductionKind::kSum, {all});
  int changed = 0, lost_nans = 0;
  for (int i = 0; i < 65536; ++i) {
    const bool nan = std::isnan(value_of(all[i]));
    changed += !nan && back[i] != all[i];
    lost_nans += nan && !std::isnan(value_of(back[i]));
  }
  CHECK(changed == 0);
  CHECK(lost_nans == 0);
}

TEST_CASE("Every f16 is unchanged by widening and narrowing, and NaNs stay NaNs") {
  CheckRoundTrip(ElementType::kF16, F16Value);
}
TEST_CASE("Every bf16 is unchanged by widening and narrowing, and NaNs stay NaNs") {
  CheckRoundTrip(ElementType::kBf16, Bf16Value);
}

// Sums of two 16-bit floats are exact in double. The f32 accumulator rounds them first, then the narrowing.
void CheckPairs(ElementType type, double (*value_of)(uint16_t), uint16_t infinity) {
  std::mt19937 random(5);
  std::vector<uint16_t> a(200000), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint16_t>(random());
    // Half of the pairs are close to each other, which gives ties and subnormal results.
    b[i] = static_cast<uint16_t>(i % 2 == 0 ? random() : (a[i] ^ 0x8000) + random() % 64 - 32);
  }
  for (ReductionKind kind : {ReductionKind::kSum, ReductionKind::kProd}) {
    const auto result = ReduceAll<uint16_t>(type, kind, {a, b});
    int wrong = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const auto x = static_cast<float>(value_of(a[i])), y = static_cast<float>(value_of(b[i]));
      const float exact = kind == ReductionKind::kSum ? x + y : x * y;
      if (std::isnan(exact)) {
        wrong += !std::isnan(value_of(result[i]));
      } else {
        wrong += result[i] != Nearest(exact, value_of, infinity);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("f16 results are the nearest f16 of the f32 result, ties to even, overflow to infinity") {
  CheckPairs(ElementType::kF16, F16Value, 0x7c00);
}
TEST_CASE("bf16 results are the nearest bf16 of the f32 result, ties to even, overflow to infinity") {
  CheckPairs(ElementType::kBf16, Bf16Value, 0x7f80);
}

TEST_CASE("16-bit floats are rounded once, after the last input") {
  // 1 + 2^-11 + 2^-11 in f16: rounding after each step would stay at 1.
  const uint16_t one = 0x3c00, tiny = 0x1000;
  CHECK(ReduceAll<uint16_t>(ElementType::kF16, ReductionKind::kSum, {{one}, {tiny}, {tiny}})[0] == 0x3c01);
  // 1 + 2^-8 + 2^-8 in bf16.
  const uint16_t bf_one = 0x3f80, bf_tiny = 0x3b80;
  CHECK(ReduceAll<uint16_t>(ElementType::kBf16, ReductionKind::kSum, {{bf_one}, {bf_tiny}, {bf_tiny}})[0] == 0x3f81);
}

TEST_CASE("A NaN in any input, at any position, makes every kind NaN") {
  constexpr size_t kCount = 3;
  for (ReductionKind kind : kKinds) {
    for (size_t at = 0; at < kCount; ++at) {
      std::vector<std::vector<float>> f32(kCount, std::vector<float>(40, 1.5f));
      std::vector<std::vector<double>> f64(kCount, std::vector<double>(40, 1.5));
      std::vector<std::vector<uint16_t>> f16(kCount, std::vector<uint16_t>(40, 0x3e00));
      std::vector<std::vector<uint16_t>> bf16(kCount, std::vector<uint16_t>(40, 0x3fc0));
      f32[at][33] = NAN;
      f64[at][33] = NAN;
      f16[at][33] = 0x7e00;
      bf16[at][33] = 0x7fc0;
      CHECK(std::isnan(ReduceAll<float>(ElementType::kF32, kind, f32)[33]));
      CHECK(std::isnan(ReduceAll<double>(ElementType::kF64, kind, f64)[33]));
      CHECK(std::isnan(F16Value(ReduceAll<uint16_t>(ElementType::kF16, kind, f16)[33])));
      CHECK(std::isnan(Bf16Value(ReduceAll<uint16_t>(ElementType::kBf16, kind, bf16)[33])));
      CHECK_FALSE(std::isnan(ReduceAll<float>(ElementType::kF32, kind, f32)[32]));
    }
  }
}

TEST_CASE("Infinities add, multiply and compare as IEEE 754 defines") {
  const float inf = INFINITY;
  const std::vector<std::vector<float>> inputs = {{inf, inf, -inf, 0, 1}, {1, -inf, -inf, inf, -inf}};
  const auto sum = ReduceAll<float>(ElementType::kF32, ReductionKind::kSum, inputs);
  CHECK(sum[0] == inf);
  CHECK(std::isnan(sum[1]));
  CHECK(sum[2] == -inf);
  CHECK(std::isnan(ReduceAll<float>(ElementType::kF32, ReductionKind::kProd, inputs)[3]));
  CHECK(ReduceAll<float>(ElementType::kF32, ReductionKind::kMin, inputs)[4] == -inf);
  CHECK(ReduceAll<float>(ElementType::kF32, ReductionKind::kMax, inputs)[3] == inf);
}

#if defined(__x86_64__)
TEST_CASE("Subnormals are kept, and the caller's flush modes change no bit and are restored") {
  const unsigned saved = _mm_getcsr();
  const std::vector<std::vector<float>> f32 = {std::vector<float>(40, FLT_MIN), std::vector<float>(40, -FLT_MIN / 2)};
  const std::vector<std::vector<double>> f64 = {{DBL_MIN}, {-DBL_MIN / 2}};
  const std::vector<std::vector<uint16_t>> f16 = {{0x0400, 0x0001},
                                                  {0x8200, 0x0001}};  // 2^-14 - 2^-15, and the smallest value twice
  const std::vector<std::vector<uint16_t>> bf16 = {{0x0080}, {0x8040}};
  for (unsigned flush : {0x0000u, 0x8000u, 0x0040u, 0x8040u}) {
    _mm_setcsr((saved & ~0x8040u) | flush);
    const auto a = ReduceAll<float>(ElementType::kF32, ReductionKind::kSum, f32);
    const auto b = ReduceAll<double>(ElementType::kF64, ReductionKind::kSum, f64);
    const auto c = ReduceAll<uint16_t>(ElementType::kF16, ReductionKind::kSum, f16);
    const auto d = ReduceAll<uint16_t>(ElementType::kBf16, ReductionKind::kSum, bf16);
    const auto e = ReduceAll<float>(ElementType::kF32, ReductionKind::kMax, {{FLT_MIN / 4}, {FLT_MIN / 8}});
    const unsigned after = _mm_getcsr() & 0x8040u;
    _mm_setcsr(saved);
    CHECK(after == flush);
    CHECK(Bits(a[0]) == Bits(FLT_MIN / 2));
    CHECK(Bits(a[39]) == Bits(FLT_MIN / 2));
    CHECK(b[0] == DBL_MIN / 2);
    CHECK(c[0] == 0x0200);
    CHECK(c[1] == 0x0002);
    CHECK(d[0] == 0x0040);
    CHECK(Bits(e[0]) == Bits(FLT_MIN / 4));
  }
}
#endif

TEST_CASE("min and max of 16-bit floats return one of the inputs bit for bit") {
  std::mt19937 random(9);
  std::vector<uint16_t> a(20000), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint16_t>(random());
    b[i] = static_cast<uint16_t>(random());
  }
  int wrong = 0;
  const auto low = ReduceAll<uint16_t>(ElementType::kF16, ReductionKind::kMin, {a, b});
  const auto high = ReduceAll<uint16_t>(ElementType::kF16, ReductionKind::kMax, {a, b});
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = F16Value(a[i]), y = F16Value(b[i]);
    if (std::isnan(x) || std::isnan(y) || x == y) continue;
    wrong += low[i] != (x < y ? a[i] : b[i]);
    wrong += high[i] != (x > y ? a[i] : b[i]);
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace xla_shmem
