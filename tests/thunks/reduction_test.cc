// Every type and kind against a naive reference. Conversions and special values: reduction_float_test.cc.
#include "xla_patch/thunks/reduction.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

namespace xla_shmem {
namespace {

constexpr ReductionKind kKinds[] = {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
                                    ReductionKind::kMax};

template <typename T>
T Naive(ReductionKind kind, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    // 128 bits do not overflow before the result is truncated.
    const __int128 x = a, y = b;
    if (kind == ReductionKind::kSum) return static_cast<T>(x + y);
    if (kind == ReductionKind::kProd)
      return static_cast<T>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y));
  } else {
    if (kind == ReductionKind::kSum) return a + b;
    if (kind == ReductionKind::kProd) return a * b;
    if (a != a || b != b) return a + b;
  }
  if (kind == ReductionKind::kMin) return b < a ? b : a;
  return a < b ? b : a;
}

template <typename T>
T RandomValue(std::mt19937_64& random) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(random());
  return static_cast<T>(static_cast<double>(static_cast<int64_t>(random())) / (1ll << 60));
}

template <typename T>
void CheckAgainstNaive(ElementType type) {
  std::mt19937_64 random(static_cast<unsigned>(type));
  CHECK(ElementBytes(type) == sizeof(T));
  for (ReductionKind kind : kKinds) {
    for (size_t count : {1, 2, 3, 8}) {
      for (size_t elements : {0, 1, 2, 31, 1023, 1024, 1025, 3000}) {
        std::vector<std::vector<T>> inputs(count, std::vector<T>(elements));
        std::vector<const char*> pointers;
        for (auto& input : inputs) {
          for (T& value : input) value = RandomValue<T>(random);
          pointers.push_back(reinterpret_cast<const char*>(input.data()));
        }
        std::vector<T> expected = inputs[0];
        for (size_t input = 1; input < count; ++input) {
          for (size_t i = 0; i < elements; ++i) expected[i] = Naive(kind, expected[i], inputs[input][i]);
        }
        std::vector<T> apart(elements);
        Reduce(type, kind, pointers.data(), count, elements, reinterpret_cast<char*>(apart.data()));
        // The result may share the memory of any one input.
        const size_t over = random() % count;
        Reduce(type, kind, pointers.data(), count, elements, reinterpret_cast<char*>(inputs[over].data()));
        if (apart != expected) FAIL("kind " << static_cast<int>(kind) << ", " << count << " x " << elements);
        if (inputs[over] != expected) FAIL("over input " << over << ", kind " << static_cast<int>(kind));
      }
    }
  }
}

TEST_CASE("s8 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<int8_t>(ElementType::kS8);
}
TEST_CASE("s16 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<int16_t>(ElementType::kS16);
}
TEST_CASE("s32 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<int32_t>(ElementType::kS32);
}
TEST_CASE("s64 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<int64_t>(ElementType::kS64);
}
TEST_CASE("u8 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<uint8_t>(ElementType::kU8);
}
TEST_CASE("u16 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<uint16_t>(ElementType::kU16);
}
TEST_CASE("u32 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<uint32_t>(ElementType::kU32);
}
TEST_CASE("u64 reduces like wide integers that are truncated at the end") {
  CheckAgainstNaive<uint64_t>(ElementType::kU64);
}
TEST_CASE("f32 accumulates in f32 in the order of the inputs") { CheckAgainstNaive<float>(ElementType::kF32); }
TEST_CASE("f64 accumulates in f64 in the order of the inputs") { CheckAgainstNaive<double>(ElementType::kF64); }

}  // namespace
}  // namespace xla_shmem
