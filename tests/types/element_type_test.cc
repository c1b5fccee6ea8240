#include "xla_patch/types/element_type.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

TEST_CASE("Element types have XLA's names and numbers") {
  CHECK(ElementTypeName(static_cast<ElementType>(11)) == "f32");
  CHECK(ElementTypeName(static_cast<ElementType>(16)) == "bf16");
  CHECK(ElementTypeName(static_cast<ElementType>(28)) == "f8e4m3");
  CHECK(ElementTypeName(static_cast<ElementType>(77)) == "type77");
  CHECK(ElementTypeName(static_cast<ElementType>(-3)) == "type-3");
}

TEST_CASE("Element types have XLA's sizes, and unknown ones have none") {
  CHECK(ElementBits(ElementType::kF64) == 64);
  CHECK(ElementBits(ElementType::kS4) == 4);
  CHECK(ElementBits(ElementType::kToken) == 0);
  CHECK(ElementBits(static_cast<ElementType>(-3)) == 0);
  CHECK(ElementBytes(ElementType::kC128) == 16);
  CHECK(ElementBytes(ElementType::kPred) == 1);
  CHECK(ElementBytes(ElementType::kS4) == 1);
  CHECK(ElementBytes(ElementType::kTuple) == 0);
}

TEST_CASE("Every element type is found by its name") {
  for (int32_t number = 1; number <= 34; ++number) {
    const auto type = static_cast<ElementType>(number);
    CAPTURE(number);
    CHECK(ElementTypeNamed(ElementTypeName(type)) == type);
  }
  CHECK_FALSE(ElementTypeNamed("float32").has_value());
  CHECK_FALSE(ElementTypeNamed("type77").has_value());
  CHECK_FALSE(ElementTypeNamed("").has_value());
}

TEST_CASE("Mixed element types are listed once each") {
  CHECK(ElementTypeNames({ElementType::kF32, ElementType::kBf16, ElementType::kF32}) == "f32,bf16");
  CHECK(ElementTypeNames({ElementType::kF32}) == "f32");
  CHECK(ElementTypeNames({}).empty());
}

}  // namespace
}  // namespace xla_shmem
