// Predicates, complex numbers, bits, and the 8-bit floats against the definition of their formats.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/thunks/reduce_all.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {
namespace {

TEST_CASE(
    "Predicates reduce sum and max as or, prod and min as and, and xor as parity, and any byte but zero is true") {
  const std::vector<std::vector<uint8_t>> inputs = {{0, 0, 1, 1, 2}, {0, 1, 0, 1, 1}, {0, 0, 0, 1, 255}};
  const std::vector<uint8_t> any = {0, 1, 1, 1, 1}, all = {0, 0, 0, 1, 1}, odd = {0, 1, 1, 1, 1};
  for (ReductionKind kind : {ReductionKind::kSum, ReductionKind::kMax, ReductionKind::kOr}) {
    CHECK(ReduceAll(ElementType::kPred, kind, inputs) == any);
  }
  for (ReductionKind kind : {ReductionKind::kProd, ReductionKind::kMin, ReductionKind::kAnd}) {
    CHECK(ReduceAll(ElementType::kPred, kind, inputs) == all);
  }
  CHECK(ReduceAll(ElementType::kPred, ReductionKind::kXor, inputs) == odd);
}

template <typename T>
void CheckBits(ElementType type) {
  std::mt19937_64 random(1);
  for (size_t count : {1, 2, 3, 5}) {
    std::vector<std::vector<T>> inputs(count, std::vector<T>(1500));
    for (auto& input : inputs) {
      for (T& value : input) value = static_cast<T>(random());
    }
    auto folded = [&](auto apply) {
      std::vector<T> expected = inputs[0];
      for (size_t i = 1; i < count; ++i) {
        std::transform(expected.begin(), expected.end(), inputs[i].begin(), expected.begin(), apply);
      }
      return expected;
    };
    const auto ands = folded([](T a, T b) { return static_cast<T>(a & b); });
    const auto ors = folded([](T a, T b) { return static_cast<T>(a | b); });
    const auto xors = folded([](T a, T b) { return static_cast<T>(a ^ b); });
    CHECK(ReduceAll(type, ReductionKind::kAnd, inputs) == ands);
    CHECK(ReduceAll(type, ReductionKind::kOr, inputs) == ors);
    CHECK(ReduceAll(type, ReductionKind::kXor, inputs) == xors);
  }
}

TEST_CASE("and, or and xor work on the bits of every integer type") {
  CheckBits<int8_t>(ElementType::kS8);
  CheckBits<uint8_t>(ElementType::kU8);
  CheckBits<int16_t>(ElementType::kS16);
  CheckBits<uint16_t>(ElementType::kU16);
  CheckBits<int32_t>(ElementType::kS32);
  CheckBits<uint32_t>(ElementType::kU32);
  CheckBits<int64_t>(ElementType::kS64);
  CheckBits<uint64_t>(ElementType::kU64);
}

template <typename Part>
void CheckComplex(ElementType type) {
  std::mt19937 random(2);
  CHECK(ElementBytes(type) == 2 * sizeof(Part));
  for (size_t count : {1, 2, 4}) {
    std::vector<std::vector<std::complex<Part>>> inputs(count, std::vector<std::complex<Part>>(1030));
    for (auto& input : inputs) {
      for (auto& value : input) value = {static_cast<Part>(random() % 17) - 8, static_cast<Part>(random() % 17) - 8};
    }
    std::vector<std::complex<Part>> sum = inputs[0], product = inputs[0];
    for (size_t i = 1; i < count; ++i) {
      for (size_t j = 0; j < sum.size(); ++j) {
        sum[j] += inputs[i][j];
        product[j] *= inputs[i][j];  // small integers, so every rounding is exact
      }
    }
    CHECK(ReduceAll(type, ReductionKind::kSum, inputs) == sum);
    CHECK(ReduceAll(type, ReductionKind::kProd, inputs) == product);
  }
}

TEST_CASE("Complex numbers add and multiply") {
  CheckComplex<float>(ElementType::kC64);
  CheckComplex<double>(ElementType::kC128);
}

// Whether Reduce writes anything: it leaves the output alone for pairs that it does not know.
bool Reduces(ElementType type, ReductionKind kind) {
  constexpr char kUntouched = 0x55;
  std::vector<char> inputs[2] = {std::vector<char>(64), std::vector<char>(64)};
  std::vector<char> output(64, kUntouched);
  const char* const pointers[] = {inputs[0].data(), inputs[1].data()};
  Reduce(type, kind, pointers, 2, 1, output.data());
  return output != std::vector<char>(64, kUntouched);
}

TEST_CASE("Reduce knows the types and kinds that Supports names, and no others") {
  for (int32_t number = 0; number <= static_cast<int32_t>(ElementType::kBuffer) + 2; ++number) {
    const auto type = static_cast<ElementType>(number);
    CAPTURE(ElementTypeName(type));
    for (const ReductionKind kind : kReductionKinds) {
      CAPTURE(ReductionName(kind));
      CHECK(Reduces(type, kind) == Supports(type, kind));
    }
  }
}

struct Format {
  ElementType type;
  int exponent_bits, bias;
  enum { kIeee, kFn, kFnuz } specials;
};

constexpr Format kFormats[] = {
    {ElementType::kF8E4M3Fn, 4, 7, Format::kFn},         {ElementType::kF8E5M2, 5, 15, Format::kIeee},
    {ElementType::kF8E4M3B11Fnuz, 4, 11, Format::kFnuz}, {ElementType::kF8E4M3Fnuz, 4, 8, Format::kFnuz},
    {ElementType::kF8E5M2Fnuz, 5, 16, Format::kFnuz},    {ElementType::kF8E3M4, 3, 3, Format::kIeee},
    {ElementType::kF8E4M3, 4, 7, Format::kIeee},
};

// The value of a code, by the definition of the format.
double Value(const Format& format, int code) {
  const int fraction_bits = 7 - format.exponent_bits;
  const int exponent = (code >> fraction_bits) & ((1 << format.exponent_bits) - 1);
  const int fraction = code & ((1 << fraction_bits) - 1);
  const double sign = (code & 0x80) != 0 ? -1 : 1;
  if (format.specials == Format::kFnuz && code == 0x80) return NAN;
  if (format.specials == Format::kFn && (code & 0x7f) == 0x7f) return NAN;
  if (format.specials == Format::kIeee && exponent == (1 << format.exponent_bits) - 1) {
    return fraction != 0 ? NAN : sign * INFINITY;
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - format.bias - fraction_bits);
}

// The code nearest to `value`, ties to even codes; outside the range, the format's infinity or NaN.
int Nearest(const Format& format, double value) {
  int largest = 0;
  while (std::isfinite(Value(format, largest + 1)) && largest + 1 < 0x80) ++largest;
  const double magnitude = std::fabs(value);
  const double beyond = 2 * Value(format, largest) - Value(format, largest - 1);
  int best = largest + 1;  // stands for values outside the range
  double distance = std::fabs(beyond - magnitude);
  for (int code = largest; code >= 0; --code) {
    const double other = std::fabs(Value(format, code) - magnitude);
    if (other < distance || (other == distance && code % 2 == 0)) {
      best = code;
      distance = other;
    }
  }
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (best > largest || std::isinf(value)) {
    if (format.specials == Format::kIeee) return sign | (largest + 1);
    return format.specials == Format::kFn ? sign | 0x7f : 0x80;
  }
  return format.specials == Format::kFnuz && best == 0 ? 0 : sign | best;
}

TEST_CASE("Every 8-bit float is unchanged by widening and narrowing, and NaNs stay NaNs") {
  for (const Format& format : kFormats) {
    std::vector<uint8_t> all(256);
    for (int code = 0; code < 256; ++code) all[code] = static_cast<uint8_t>(code);
    const auto back = ReduceAll<uint8_t>(format.type, ReductionKind::kSum, {all});
    int wrong = 0;
    for (int code = 0; code < 256; ++code) {
      const bool nan = std::isnan(Value(format, code));
      wrong += nan ? !std::isnan(Value(format, back[code])) : back[code] != all[code];
    }
    CAPTURE(static_cast<int>(format.type));
    CHECK(wrong == 0);
  }
}

TEST_CASE("Sums and products of all pairs of 8-bit floats are the nearest code of the f32 result, ties to even") {
  for (const Format& format : kFormats) {
    std::vector<uint8_t> a(65536), b(65536);
    for (int i = 0; i < 65536; ++i) {
      a[i] = static_cast<uint8_t>(i);
      b[i] = static_cast<uint8_t>(i >> 8);
    }
    for (ReductionKind kind : {ReductionKind::kSum, ReductionKind::kProd}) {
      const auto result = ReduceAll<uint8_t>(format.type, kind, {a, b});
      int wrong = 0;
      for (int i = 0; i < 65536; ++i) {
        const auto x = static_cast<float>(Value(format, a[i])), y = static_cast<float>(Value(format, b[i]));
        const float exact = kind == ReductionKind::kSum ? x + y : x * y;
        if (std::isnan(exact)) {
          wrong += !std::isnan(Value(format, result[i]));
        } else {
          wrong += result[i] != Nearest(format, exact);
        }
      }
      CAPTURE(static_cast<int>(format.type));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("8-bit floats are rounded once, after the last input") {
  // 1 + 1/32 + 1/32 in E4M3FN, whose step at 1 is 1/8. Rounding after each step would give 1. So does one rounding to
  // even, but 1 + 3 * 1/32 is nearer to 1 1/8.
  const uint8_t one = 0x38, tiny = 0x10;
  CHECK(ReduceAll<uint8_t>(ElementType::kF8E4M3Fn, ReductionKind::kSum, {{one}, {tiny}, {tiny}, {tiny}})[0] == 0x39);
}

}  // namespace
}  // namespace xla_shmem
