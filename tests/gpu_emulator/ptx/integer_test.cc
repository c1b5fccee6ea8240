// Integer arithmetic and logic against calculations in 128 bits or written out.
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ptx/run_text.h"

namespace ptx::testing {
namespace {

__extension__ using Wide = __int128;

template <typename T>
std::vector<T> Values(unsigned seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0, 1, static_cast<T>(-1), Limits::min(), Limits::max(), static_cast<T>(Limits::max() - 1),
                           2, 3};
  std::mt19937_64 random(seed);
  while (values.size() < 64) values.push_back(static_cast<T>(random() >> (random() % 64)));
  for (size_t k = values.size() - 1; k > 0; --k) std::swap(values[k], values[random() % (k + 1)]);
  return values;
}

template <typename T>
std::string Name() {
  return (std::numeric_limits<T>::is_signed ? "s" : "u") + std::to_string(8 * sizeof(T));
}

template <typename T, typename Reference>
void CheckBinary(const std::string& opcode, Reference reference) {
  const std::vector<T> a = Values<T>(1), b = Values<T>(2);
  const std::string instruction = opcode + "." + Name<T>() + " %d, %a, %b;";
  INFO(instruction);
  const std::vector<T> found = Run<T>(instruction, a, b);
  for (size_t k = 0; k < a.size(); ++k) {
    INFO(static_cast<int64_t>(a[k]), " ", static_cast<int64_t>(b[k]));
    CHECK(found[k] == static_cast<T>(reference(static_cast<Wide>(a[k]), static_cast<Wide>(b[k]))));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("Sums, products and extrema of integers wrap", T, int16_t, uint16_t, int32_t, uint32_t, int64_t,
                   uint64_t) {
  CheckBinary<T>("add", [](Wide a, Wide b) { return a + b; });
  CheckBinary<T>("sub", [](Wide a, Wide b) { return a - b; });
  CheckBinary<T>("mul.lo", [](Wide a, Wide b) { return static_cast<uint64_t>(a) * static_cast<uint64_t>(b); });
  CheckBinary<T>("min", [](Wide a, Wide b) { return a < b ? a : b; });
  CheckBinary<T>("max", [](Wide a, Wide b) { return a > b ? a : b; });
  CheckBinary<T>("div", [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a / b; });
  CheckBinary<T>("rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
  if constexpr (sizeof(T) < 8 || std::numeric_limits<T>::is_signed) {
    CheckBinary<T>("mul.hi", [](Wide a, Wide b) { return (a * b) >> (8 * sizeof(T)); });
  }
}

TEST_CASE("The high half of 64-bit products without a sign") {
  CHECK(RunOne<uint64_t>("mul.hi.u64 %d, %a, %b;", ~0ULL, ~0ULL) == ~0ULL - 1);
  CHECK(RunOne<uint64_t>("mul.hi.u64 %d, %a, %b;", 1ULL << 63, uint64_t{6}) == 3);
}

TEST_CASE("Wide products have all digits") {
  CHECK(RunOne<int64_t>("mul.wide.s32 %d, %a, %b;", -3, INT32_MAX) == -3LL * INT32_MAX);
  CHECK(RunOne<uint64_t>("mul.wide.u32 %d, %a, %b;", ~0U, ~0U) == 0xfffffffe00000001);
  CHECK(RunOne<int32_t>("mul.wide.s16 %d, %a, %b;", int16_t{-30000}, int16_t{30000}) == -900000000);
  CHECK(RunOne<int64_t>("mad.wide.s32 %d, %a, %b, %c;", 1 << 30, 8, int64_t{-1}) == (1LL << 33) - 1);
  CHECK(RunOne<uint32_t>("mad.hi.u32 %d, %a, %b, %c;", 1U << 31, 6U, 7U) == 10);
  CHECK(RunOne<int32_t>("mad.lo.s32 %d, %a, %b, %c;", 100000, 100000, 1) == static_cast<int32_t>(10000000001LL));
}

TEST_CASE("Signs") {
  CHECK(RunOne<int32_t>("neg.s32 %d, %a;", INT32_MIN) == INT32_MIN);
  CHECK(RunOne<int32_t>("abs.s32 %d, %a;", -7) == 7);
  CHECK(RunOne<int32_t>("abs.s32 %d, %a;", INT32_MIN) == INT32_MIN);
  CHECK(RunOne<int16_t>("neg.s16 %d, %a;", int16_t{5}) == -5);
  CHECK(RunOne<int64_t>("abs.s64 %d, %a;", -(int64_t{1} << 40)) == int64_t{1} << 40);
}

TEST_CASE("Saturated sums stop at the limits") {
  CHECK(RunOne<int32_t>("add.sat.s32 %d, %a, %b;", INT32_MAX, 1) == INT32_MAX);
  CHECK(RunOne<int32_t>("sub.sat.s32 %d, %a, %b;", INT32_MIN, 1) == INT32_MIN);
  CHECK(RunOne<int32_t>("add.sat.s32 %d, %a, %b;", -5, 3) == -2);
}

TEST_CASE("Carries go from one sum to the next") {
  const std::string sum =
      ".reg .b32 %l0, %h0, %l1, %h1;\nmov.b64 {%l0, %h0}, %a;\nmov.b64 {%l1, %h1}, %b;\n"
      "add.cc.u32 %l0, %l0, %l1;\naddc.u32 %h0, %h0, %h1;\nmov.b64 %d, {%l0, %h0};";
  const std::string difference =
      ".reg .b32 %l0, %h0, %l1, %h1;\nmov.b64 {%l0, %h0}, %a;\nmov.b64 {%l1, %h1}, %b;\n"
      "sub.cc.u32 %l0, %l0, %l1;\nsubc.u32 %h0, %h0, %h1;\nmov.b64 %d, {%l0, %h0};";
  const std::vector<uint64_t> a = Values<uint64_t>(3), b = Values<uint64_t>(4);
  const std::vector<uint64_t> sums = Run<uint64_t>(sum, a, b), differences = Run<uint64_t>(difference, a, b);
  for (size_t k = 0; k < a.size(); ++k) {
    CHECK(sums[k] == a[k] + b[k]);
    CHECK(differences[k] == a[k] - b[k]);
  }
  const std::string product =
      ".reg .b32 %l0, %h0, %l, %h;\nmov.b64 {%l0, %h0}, %a;\nmov.b64 {%l, %h}, %b;\n"
      "mad.lo.cc.u32 %l, %l0, %h0, %l;\nmadc.hi.u32 %h, %l0, %h0, %h;\nmov.b64 %d, {%l, %h};";
  const std::vector<uint64_t> products = Run<uint64_t>(product, a, b);
  for (size_t k = 0; k < a.size(); ++k) CHECK(products[k] == (a[k] & 0xffffffff) * (a[k] >> 32) + b[k]);
}

TEST_CASE("Logic of all widths") {
  CHECK(RunOne<uint16_t>("and.b16 %d, %a, %b;", uint16_t{0xff0f}, uint16_t{0x0ff0}) == 0x0f00);
  CHECK(RunOne<uint32_t>("or.b32 %d, %a, %b;", 0xff000000U, 0xffU) == 0xff0000ff);
  CHECK(RunOne<uint64_t>("xor.b64 %d, %a, %b;", ~0ULL, 1ULL) == ~1ULL);
  CHECK(RunOne<uint16_t>("not.b16 %d, %a;", uint16_t{0x00ff}) == 0xff00);
  // 0xe8 is the majority.
  CHECK(RunOne<uint32_t>("lop3.b32 %d, %a, %b, %c, 0xe8;", 0xf0f0U, 0xff00U, 0xaaaaU) == 0xfaa0);
}

TEST_CASE("Logic of predicates") {
  const std::string text = "setp.ne.u32 %q, %a, 0;\nsetp.ne.u32 %r, %b, 0;\n";
  const std::vector<uint32_t> a = {0, 0, 1, 1}, b = {0, 1, 0, 1};
  using Bits = std::vector<uint32_t>;
  CHECK(Run<uint32_t>(text + "and.pred %q, %q, %r;\nselp.b32 %d, 1, 0, %q;", a, b) == Bits{0, 0, 0, 1});
  CHECK(Run<uint32_t>(text + "or.pred %q, %q, %r;\nselp.b32 %d, 1, 0, %q;", a, b) == Bits{0, 1, 1, 1});
  CHECK(Run<uint32_t>(text + "xor.pred %q, %q, %r;\nselp.b32 %d, 1, 0, %q;", a, b) == Bits{0, 1, 1, 0});
  CHECK(Run<uint32_t>(text + "not.pred %q, %q;\nselp.b32 %d, 1, 0, %q;", a, b) == Bits{1, 1, 0, 0});
}

TEST_CASE("Shifts by the width and more") {
  const std::vector<uint32_t> by = {0, 1, 15, 16, 31, 32, 33, 63, 64, 65, ~0U};
  const std::vector<uint32_t> a(by.size(), 0x80000001);
  const std::vector<uint32_t> left = Run<uint32_t>("shl.b32 %d, %a, %b;", a, by);
  const std::vector<uint32_t> right = Run<uint32_t>("shr.u32 %d, %a, %b;", a, by);
  const std::vector<uint32_t> with_sign = Run<uint32_t>("shr.s32 %d, %a, %b;", a, by);
  const std::vector<uint64_t> wide(by.size(), 0x8000000000000001);
  const std::vector<uint64_t> wide_left = Run<uint64_t>("shl.b64 %d, %a, %b;", wide, by);
  const std::vector<uint64_t> wide_right = Run<uint64_t>("shr.s64 %d, %a, %b;", wide, by);
  const std::vector<uint16_t> narrow(by.size(), 0x8001);
  const std::vector<uint16_t> narrow_right = Run<uint16_t>("shr.s16 %d, %a, %b;", narrow, by);
  for (size_t k = 0; k < by.size(); ++k) {
    const uint32_t n = by[k];
    INFO(n);
    CHECK(left[k] == (n < 32 ? 0x80000001U << n : 0));
    CHECK(right[k] == (n < 32 ? 0x80000001U >> n : 0));
    CHECK(with_sign[k] == static_cast<uint32_t>(int64_t{INT32_MIN + 1} >> (n < 63 ? n : 63)));
    CHECK(wide_left[k] == (n < 64 ? 0x8000000000000001 << n : 0));
    CHECK(wide_right[k] == static_cast<uint64_t>(static_cast<Wide>(INT64_MIN + 1) >> (n < 127 ? n : 127)));
    CHECK(narrow_right[k] == static_cast<uint16_t>(int64_t{INT16_MIN + 1} >> (n < 63 ? n : 63)));
  }
}

TEST_CASE("Funnel shifts and permutations of bytes") {
  CHECK(RunOne<uint32_t>("shf.l.wrap.b32 %d, %a, %b, %c;", 0x89abcdefU, 0x01234567U, 40U) == 0x23456789);
  CHECK(RunOne<uint32_t>("shf.l.clamp.b32 %d, %a, %b, %c;", 0x89abcdefU, 0x01234567U, 40U) == 0x89abcdef);
  CHECK(RunOne<uint32_t>("shf.r.wrap.b32 %d, %a, %b, %c;", 0x89abcdefU, 0x01234567U, 8U) == 0x6789abcd);
  CHECK(RunOne<uint32_t>("shf.r.clamp.b32 %d, %a, %b, %c;", 0x89abcdefU, 0x01234567U, 99U) == 0x01234567);
  CHECK(RunOne<uint32_t>("prmt.b32 %d, %a, %b, 0x7531;", 0x33221100U, 0x77665544U) == 0x77553311);
  // With the top bit of a selector: copies of the sign.
  CHECK(RunOne<uint32_t>("prmt.b32 %d, %a, %b, 0x8c09;", 0x00008000U, 0x00000080U) == 0x00ff00ff);
}

TEST_CASE("Counts and fields of bits") {
  CHECK(RunOne<uint32_t>("clz.b32 %d, %a;", 0U) == 32);
  CHECK(RunOne<uint32_t>("clz.b64 %d, %a;", uint64_t{1}) == 63);
  CHECK(RunOne<uint32_t>("popc.b64 %d, %a;", ~0ULL) == 64);
  CHECK(RunOne<uint32_t>("brev.b32 %d, %a;", 0x00000003U) == 0xc0000000);
  CHECK(RunOne<uint32_t>("bfind.u32 %d, %a;", 0U) == ~0U);
  CHECK(RunOne<uint32_t>("bfind.s32 %d, %a;", -1) == ~0U);
  CHECK(RunOne<uint32_t>("bfind.s32 %d, %a;", -256) == 7);
  CHECK(RunOne<uint32_t>("bfe.u32 %d, %a, 8, 4;", 0x00000f00U) == 15);
  CHECK(RunOne<int32_t>("bfe.s32 %d, %a, 8, 4;", 0x00000f00) == -1);
  CHECK(RunOne<int32_t>("bfe.s32 %d, %a, 28, 8;", INT32_MIN) == -8);
  CHECK(RunOne<int32_t>("bfe.s32 %d, %a, 40, 8;", INT32_MIN) == -1);
  CHECK(RunOne<uint32_t>("bfe.u32 %d, %a, 40, 8;", ~0U) == 0);
  CHECK(RunOne<uint32_t>("bfe.u32 %d, %a, 3, 0;", ~0U) == 0);
  CHECK(RunOne<uint32_t>("bfi.b32 %d, %a, %b, 4, 8;", 0xabcU, 0U) == 0xbc0);
  CHECK(RunOne<uint32_t>("bfi.b32 %d, %a, %b, 32, 8;", 0xabcU, 7U) == 7);
}

}  // namespace ptx::testing
