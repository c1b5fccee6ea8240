// Floating-point arithmetic, comparisons and conversions: special values, roundings, narrow types.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ptx/run_text.h"
#include "xla_patch/thunks/narrow_floats.h"

namespace ptx::testing {
namespace {

using xla_shmem::Bf16;
using xla_shmem::F16;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kDenormal = std::numeric_limits<float>::denorm_min();
constexpr uint32_t kCanonicalNan = 0x7fffffff;

std::vector<float> Values(unsigned seed) {
  std::vector<float> values = {kNan,       kInfinity, -kInfinity, 0.0f,    -0.0f, kDenormal,
                               -kDenormal, 1.0f,      -1.5f,      3.4e38f, 1e-38f};
  std::mt19937 random(seed);
  while (values.size() < 96) values.push_back(FloatOf(static_cast<uint32_t>(random())));
  for (size_t k = values.size() - 1; k > 0; --k) std::swap(values[k], values[random() % (k + 1)]);
  return values;
}

bool Same(float found, float expected) {
  return std::isnan(expected) ? BitsOf(found) == kCanonicalNan : BitsOf(found) == BitsOf(expected);
}

template <typename Reference>
void CheckBinary(const std::string& instruction, Reference reference) {
  INFO(instruction);
  const std::vector<float> a = Values(1), b = Values(2);
  const std::vector<float> found = Run<float>(instruction + " %d, %a, %b;", a, b);
  for (size_t k = 0; k < a.size(); ++k) {
    INFO(a[k], " ", b[k], " gives ", found[k], " instead of ", reference(a[k], b[k]));
    CHECK(Same(found[k], reference(a[k], b[k])));
  }
}

// The value of type T nearest to `exact`, the even one of two, found by trying all of them.
template <typename T>
uint16_t Nearest(long double exact, uint16_t infinity) {
  if (std::isnan(exact)) return 0x7fff;
  const long double magnitude = std::fabs(exact);
  uint32_t low = 0, high = infinity;  // bits of positive values have their order
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (T::Widen({static_cast<uint16_t>(middle)}) <= magnitude ? low : high) = middle;
  }
  const long double below = T::Widen({static_cast<uint16_t>(low)});
  // What the next value would be if the exponent had no end.
  const long double above = high == infinity ? below + (below - T::Widen({static_cast<uint16_t>(low - 1)}))
                                             : T::Widen({static_cast<uint16_t>(high)});
  const long double down = magnitude - below, up = above - magnitude;
  uint32_t nearest = down < up || (down == up && low % 2 == 0) ? low : high;
  if (std::isinf(exact)) nearest = infinity;
  return static_cast<uint16_t>(nearest | (std::signbit(exact) ? 0x8000 : 0));
}

constexpr uint16_t kF16Infinity = 0x7c00;
constexpr uint16_t kBf16Infinity = 0x7f80;

std::vector<uint16_t> NarrowValues(unsigned seed, uint16_t infinity) {
  std::vector<uint16_t> values = {0,        0x8000,
                                  1,        0x8001,
                                  infinity, static_cast<uint16_t>(infinity | 0x8000),
                                  0x7fff,   static_cast<uint16_t>(infinity - 1),
                                  0x3c00,   0x3f80};
  std::mt19937 random(seed);
  while (values.size() < 512) values.push_back(static_cast<uint16_t>(random()));
  for (size_t k = values.size() - 1; k > 0; --k) std::swap(values[k], values[random() % (k + 1)]);
  return values;
}

bool SameNarrow(uint16_t found, uint16_t expected) { return found == expected; }

}  // namespace

TEST_CASE("f32: sums, products, quotients, NaN, infinities and denormals") {
  CheckBinary("add.f32", [](float a, float b) { return a + b; });
  CheckBinary("sub.rn.f32", [](float a, float b) { return a - b; });
  CheckBinary("mul.rn.f32", [](float a, float b) { return a * b; });
  CheckBinary("div.rn.f32", [](float a, float b) { return a / b; });
}

TEST_CASE("f32: minimum and maximum prefer a number, unless NaN is asked for") {
  const auto order = [](float a, float b) { return a == b ? std::signbit(a) && !std::signbit(b) : a < b; };
  CheckBinary("min.f32", [&](float a, float b) { return std::isnan(a) ? b : std::isnan(b) || order(a, b) ? a : b; });
  CheckBinary("max.f32", [&](float a, float b) { return std::isnan(a) ? b : std::isnan(b) || order(b, a) ? a : b; });
  CheckBinary("min.NaN.f32", [&](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? kNan : order(a, b) ? a : b;
  });
  CheckBinary("max.NaN.f32", [&](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? kNan : order(b, a) ? a : b;
  });
}

TEST_CASE("f32: flushed denormals keep their sign") {
  CHECK(BitsOf(RunOne<float>("add.ftz.f32 %d, %a, %b;", kDenormal, kDenormal)) == 0);
  CHECK(BitsOf(RunOne<float>("mul.ftz.f32 %d, %a, %b;", -1e-30f, 1e-30f)) == 0x80000000);
  CHECK(RunOne<float>("mul.f32 %d, %a, %b;", 1e-20f, 1e-20f) != 0);
  CHECK(RunOne<float>("mul.ftz.f32 %d, %a, %b;", 1e-20f, 1e-20f) == 0);
}

TEST_CASE("f32: saturation to [0, 1], where NaN becomes 0") {
  const std::vector<float> a = {-1, 0.25f, 7, kNan, kInfinity, -0.0f}, b(6, 0.0f);
  CHECK(Run<float>("add.sat.f32 %d, %a, %b;", a, b) == std::vector<float>{0, 0.25f, 1, 0, 1, 0});
}

TEST_CASE("Directed roundings of f32 and f64") {
  const float tiny = std::ldexp(1.0f, -40);
  const float above = std::nextafter(1.0f, 2.0f), below = std::nextafter(1.0f, 0.0f);
  CHECK(RunOne<float>("add.rn.f32 %d, %a, %b;", 1.0f, tiny) == 1.0f);
  CHECK(RunOne<float>("add.rz.f32 %d, %a, %b;", 1.0f, tiny) == 1.0f);
  CHECK(RunOne<float>("add.rm.f32 %d, %a, %b;", 1.0f, tiny) == 1.0f);
  CHECK(RunOne<float>("add.rp.f32 %d, %a, %b;", 1.0f, tiny) == above);
  CHECK(RunOne<float>("sub.rz.f32 %d, %a, %b;", 1.0f, tiny) == below);
  CHECK(RunOne<float>("sub.rm.f32 %d, %a, %b;", 1.0f, tiny) == below);
  CHECK(RunOne<float>("sub.rp.f32 %d, %a, %b;", 1.0f, tiny) == 1.0f);
  CHECK(RunOne<float>("fma.rm.f32 %d, %a, %b, %c;", 1.0f, 1.0f, -tiny) == below);
  CHECK(RunOne<float>("fma.rp.f32 %d, %a, %b, %c;", 1.0f, 1.0f, tiny) == above);
  CHECK(RunOne<double>("div.rp.f64 %d, %a, %b;", 1.0, 3.0) == std::nextafter(1.0 / 3.0, 1.0));
  CHECK(RunOne<double>("mul.rz.f64 %d, %a, %b;", 1.0 + std::ldexp(1.0, -52), 1.0 + std::ldexp(1.0, -52)) ==
        1.0 + std::ldexp(1.0, -51));
  // The rounding ends with the instruction.
  CHECK(fegetround() == FE_TONEAREST);
}

TEST_CASE("fma rounds once") {
  const float a = 1.0f + std::ldexp(1.0f, -12);
  const float product = a * a;
  CHECK(RunOne<float>("fma.rn.f32 %d, %a, %b, %c;", a, a, -product) == std::ldexp(1.0f, -24));
  const double b = 1.0 + std::ldexp(1.0, -30);
  CHECK(RunOne<double>("fma.rn.f64 %d, %a, %b, %c;", b, b, -(b * b)) == std::ldexp(1.0, -60));
  CHECK(BitsOf(RunOne<float>("fma.rn.f32 %d, %a, %b, %c;", kInfinity, 0.0f, 1.0f)) == kCanonicalNan);
}

TEST_CASE("Signs of floats, also of NaN") {
  CHECK(RunOne<uint32_t>("neg.f32 %d, %a;", 0x7fc00001U) == 0xffc00001);
  CHECK(RunOne<uint32_t>("abs.f32 %d, %a;", 0xffc00001U) == 0x7fc00001);
  CHECK(RunOne<uint16_t>("neg.f16 %d, %a;", uint16_t{0x3c00}) == 0xbc00);
  CHECK(RunOne<uint32_t>("neg.bf16x2 %d, %a;", 0x3f803f80U) == 0xbf80bf80);
  CHECK(RunOne<float>("copysign.f32 %d, %a, %b;", -0.0f, 3.0f) == -3.0f);
}

TEST_CASE("Functions") {
  CHECK(RunOne<float>("sqrt.rn.f32 %d, %a;", 2.0f) == std::sqrt(2.0f));
  CHECK(RunOne<double>("sqrt.rn.f64 %d, %a;", 2.0) == std::sqrt(2.0));
  CHECK(RunOne<float>("rcp.rn.f32 %d, %a;", -0.0f) == -kInfinity);
  CHECK(RunOne<float>("rsqrt.approx.f32 %d, %a;", 4.0f) == 0.5f);
  CHECK(RunOne<float>("ex2.approx.f32 %d, %a;", -2.0f) == 0.25f);
  CHECK(RunOne<float>("ex2.approx.ftz.f32 %d, %a;", -140.0f) == 0.0f);
  CHECK(RunOne<float>("lg2.approx.f32 %d, %a;", 8.0f) == 3.0f);
  CHECK(RunOne<float>("tanh.approx.f32 %d, %a;", 50.0f) == 1.0f);
  CHECK(RunOne<float>("sin.approx.f32 %d, %a;", 1.0f) == doctest::Approx(std::sin(1.0)));
  CHECK(RunOne<float>("cos.approx.f32 %d, %a;", 1.0f) == doctest::Approx(std::cos(1.0)));
  CHECK(RunOne<float>("div.full.f32 %d, %a, %b;", 1.0f, 3.0f) == 1.0f / 3.0f);
}

TEST_CASE_TEMPLATE("Narrow floats are rounded once", T, F16, Bf16) {
  const bool half = std::is_same_v<T, F16>;
  const uint16_t infinity = half ? kF16Infinity : kBf16Infinity;
  const std::string type = half ? "f16" : "bf16";
  const std::vector<uint16_t> a = NarrowValues(1, infinity), b = NarrowValues(2, infinity),
                              c = NarrowValues(3, infinity);
  const std::vector<uint16_t> sums = Run<uint16_t>("add.rn." + type + " %d, %a, %b;", a, b);
  const std::vector<uint16_t> products = Run<uint16_t>("mul.rn." + type + " %d, %a, %b;", a, b);
  const std::vector<uint16_t> fused = Run<uint16_t>("fma.rn." + type + " %d, %a, %b, %c;", a, b, c);
  for (size_t k = 0; k < a.size(); ++k) {
    const long double x = T::Widen({a[k]}), y = T::Widen({b[k]}), z = T::Widen({c[k]});
    INFO(type, " ", a[k], " ", b[k], " ", c[k]);
    CHECK(SameNarrow(sums[k], Nearest<T>(x + y, infinity)));
    CHECK(SameNarrow(products[k], Nearest<T>(x * y, infinity)));
    // In 64 digits the sum is exact unless the operands are far apart; then the small one only decides a tie.
    if (half || std::fabs(std::log2(std::fabs(x * y)) - std::log2(std::fabs(z))) < 40) {
      CHECK(SameNarrow(fused[k], Nearest<T>(x * y + z, infinity)));
    }
  }
}

TEST_CASE("Pairs of narrow floats are calculated one by one") {
  CHECK(RunOne<uint32_t>("add.f16x2 %d, %a, %b;", 0x3c004000U, 0x3c003c00U) == 0x40004200);
  CHECK(RunOne<uint32_t>("fma.rn.bf16x2 %d, %a, %b, %c;", 0x3f804000U, 0x40004000U, 0x3f803f80U) == 0x404040a0);
  CHECK(RunOne<uint32_t>("max.NaN.f16x2 %d, %a, %b;", 0x7fff3c00U, 0x3c004000U) == 0x7fff4000);
  CHECK(RunOne<uint32_t>("max.f16x2 %d, %a, %b;", 0x7fff3c00U, 0x3c004000U) == 0x3c004000);
}

TEST_CASE("Comparisons with NaN") {
  const std::vector<float> a = {1, 2, 2, kNan, -0.0f}, b = {2, 2, 1, 1, 0.0f};
  const auto holds = [&](const std::string& relation) {
    return Run<uint32_t>("setp." + relation + ".f32 %q, %a, %b;\nselp.u32 %d, 1, 0, %q;", a, b);
  };
  using Bits = std::vector<uint32_t>;
  CHECK(holds("eq") == Bits{0, 1, 0, 0, 1});
  CHECK(holds("ne") == Bits{1, 0, 1, 0, 0});
  CHECK(holds("lt") == Bits{1, 0, 0, 0, 0});
  CHECK(holds("le") == Bits{1, 1, 0, 0, 1});
  CHECK(holds("gt") == Bits{0, 0, 1, 0, 0});
  CHECK(holds("ge") == Bits{0, 1, 1, 0, 1});
  CHECK(holds("equ") == Bits{0, 1, 0, 1, 1});
  CHECK(holds("neu") == Bits{1, 0, 1, 1, 0});
  CHECK(holds("ltu") == Bits{1, 0, 0, 1, 0});
  CHECK(holds("geu") == Bits{0, 1, 1, 1, 1});
  CHECK(holds("num") == Bits{1, 1, 1, 0, 1});
  CHECK(holds("nan") == Bits{0, 0, 0, 1, 0});
}

TEST_CASE("Comparisons with a second result and a predicate") {
  const std::vector<int32_t> a = {-1, 0, 1, 5}, b = {1, 1, 1, 1};
  const std::string text =
      "setp.gt.s32 %r, %a, 3;\nsetp.lt.or.s32 %q|%r, %a, %b, !%r;\n.reg .b32 %e;\nselp.b32 %d, 1, 0, %q;\n"
      "selp.b32 %e, 2, 0, %r;\nor.b32 %d, %d, %e;";
  // q = a < b or not (a > 3); r = not (a < b) or not (a > 3)
  CHECK(Run<int32_t>(text, a, b) == std::vector<int32_t>{3, 3, 3, 2});
  CHECK(RunOne<uint32_t>("setp.lo.u32 %q, %a, %b;\nselp.b32 %d, 1, 0, %q;", 1U, ~0U) == 1);
  CHECK(RunOne<uint32_t>("setp.lt.s32 %q, %a, %b;\nselp.b32 %d, 1, 0, %q;", 1U, ~0U) == 0);
}

TEST_CASE("Kinds of floats") {
  const std::vector<float> a = {1, kInfinity, kNan, kDenormal, 0};
  const auto is = [&](const std::string& property) {
    return Run<uint32_t>("testp." + property + ".f32 %q, %a;\nselp.u32 %d, 1, 0, %q;", a);
  };
  using Bits = std::vector<uint32_t>;
  CHECK(is("finite") == Bits{1, 0, 0, 1, 1});
  CHECK(is("infinite") == Bits{0, 1, 0, 0, 0});
  CHECK(is("notanumber") == Bits{0, 0, 1, 0, 0});
  CHECK(is("subnormal") == Bits{0, 0, 0, 1, 0});
}

TEST_CASE("Floats to integers: roundings, limits and NaN") {
  const std::vector<float> a = {0.5f, 1.5f, -1.5f, 2.7f, -2.7f, 3e9f, -3e9f, kNan, kInfinity};
  using Ints = std::vector<int32_t>;
  CHECK(Run<int32_t>("cvt.rni.s32.f32 %d, %a;", a) == Ints{0, 2, -2, 3, -3, INT32_MAX, INT32_MIN, 0, INT32_MAX});
  CHECK(Run<int32_t>("cvt.rzi.s32.f32 %d, %a;", a) == Ints{0, 1, -1, 2, -2, INT32_MAX, INT32_MIN, 0, INT32_MAX});
  CHECK(Run<int32_t>("cvt.rmi.s32.f32 %d, %a;", a) == Ints{0, 1, -2, 2, -3, INT32_MAX, INT32_MIN, 0, INT32_MAX});
  CHECK(Run<int32_t>("cvt.rpi.s32.f32 %d, %a;", a) == Ints{1, 2, -1, 3, -2, INT32_MAX, INT32_MIN, 0, INT32_MAX});
  CHECK(RunOne<uint32_t>("cvt.rzi.u32.f32 %d, %a;", -3.0f) == 0);
  CHECK(RunOne<uint64_t>("cvt.rzi.u64.f64 %d, %a;", 1e30) == ~0ULL);
  CHECK(RunOne<int64_t>("cvt.rzi.s64.f64 %d, %a;", -1e30) == INT64_MIN);
  CHECK(RunOne<float>("cvt.rni.f32.f32 %d, %a;", 2.5f) == 2.0f);
  CHECK(RunOne<float>("cvt.rmi.f32.f32 %d, %a;", -0.5f) == -1.0f);
}

TEST_CASE("Integers to floats are rounded once") {
  CHECK(RunOne<float>("cvt.rn.f32.s32 %d, %a;", 16777217) == 16777216.0f);
  CHECK(RunOne<float>("cvt.rp.f32.s32 %d, %a;", 16777217) == 16777218.0f);
  CHECK(RunOne<float>("cvt.rn.f32.u64 %d, %a;", ~0ULL) == 18446744073709551616.0f);
  CHECK(RunOne<double>("cvt.rz.f64.s64 %d, %a;", INT64_MAX) == 9223372036854774784.0);
  CHECK(RunOne<uint16_t>("cvt.rn.f16.s32 %d, %a;", 2049) == 0x6800);
  CHECK(RunOne<uint16_t>("cvt.rn.f16.s32 %d, %a;", 65520) == kF16Infinity);
  // Slightly above a tie of bf16: through f32 it would become the tie.
  CHECK(RunOne<uint16_t>("cvt.rn.bf16.u64 %d, %a;", (0x101ULL << 40) + 1) == 0x5781);
}

TEST_CASE_TEMPLATE("f32 to narrow floats", T, F16, Bf16) {
  const bool half = std::is_same_v<T, F16>;
  const uint16_t infinity = half ? kF16Infinity : kBf16Infinity;
  const std::string type = half ? "f16" : "bf16";
  std::vector<float> a = Values(7);
  for (const uint16_t bits : NarrowValues(8, infinity)) {
    const float value = T::Widen({bits});
    if (std::isnan(value) || std::isinf(value)) continue;
    const float next = T::Widen({static_cast<uint16_t>(bits + 1)});
    a.push_back((value + next) / 2);  // a tie, and its neighbours
    a.push_back(std::nextafter(a.back(), kInfinity));
  }
  a.resize(1024);  // threads of a block
  const std::vector<uint16_t> nearest = Run<uint16_t>("cvt.rn." + type + ".f32 %d, %a;", a);
  const std::vector<uint16_t> truncated = Run<uint16_t>("cvt.rz." + type + ".f32 %d, %a;", a);
  for (size_t k = 0; k < a.size(); ++k) {
    INFO(a[k]);
    CHECK(SameNarrow(nearest[k], Nearest<T>(a[k], infinity)));
    if (std::isnan(a[k])) continue;
    const float magnitude = std::fabs(T::Widen({truncated[k]}));
    CHECK(magnitude <= std::fabs(a[k]));
    if (std::isfinite(a[k])) {
      CHECK((truncated[k] & 0x7fff) < infinity);
      const uint16_t next = static_cast<uint16_t>((truncated[k] & 0x7fff) + 1);
      CHECK((next == infinity || T::Widen({next}) > std::fabs(a[k])));
    }
  }
}

TEST_CASE("Conversions to pairs: the first source is the high half") {
  CHECK(RunOne<uint32_t>("cvt.rn.f16x2.f32 %d, %a, %b;", 1.0f, 2.0f) == 0x3c004000);
  CHECK(RunOne<uint32_t>("cvt.rn.relu.bf16x2.f32 %d, %a, %b;", -1.0f, 2.0f) == 0x00004000);
  CHECK(RunOne<float>("cvt.f32.f16 %d, %a;", uint16_t{0x0001}) == std::ldexp(1.0f, -24));
  CHECK(RunOne<float>("cvt.rn.f32.f64 %d, %a;", 1e-50) == 0.0f);
  CHECK(RunOne<uint16_t>("cvt.rn.f16.f64 %d, %a;", 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)) == 0x3c01);
}

TEST_CASE("Conversions between integers extend, cut and saturate") {
  CHECK(RunOne<int64_t>("cvt.s64.s32 %d, %a;", -2) == -2);
  CHECK(RunOne<uint64_t>("cvt.u64.u32 %d, %a;", ~0U) == 0xffffffff);
  CHECK(RunOne<int32_t>("cvt.s32.s8 %d, %a;", 0x1fe) == -2);
  CHECK(RunOne<int32_t>("cvt.s8.s32 %d, %a;", 0x1fe) == -2);
  CHECK(RunOne<uint32_t>("cvt.u8.u32 %d, %a;", 0x1feU) == 0xfe);
  CHECK(RunOne<uint16_t>("cvt.u16.u64 %d, %a;", uint64_t{0x12345}) == 0x2345);
  CHECK(RunOne<int32_t>("cvt.sat.s8.s32 %d, %a;", 300) == 127);
  CHECK(RunOne<uint32_t>("cvt.sat.u16.s32 %d, %a;", -1) == 0);
}

}  // namespace ptx::testing
