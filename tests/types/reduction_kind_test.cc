#include "xla_patch/types/reduction_kind.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>

namespace xla_shmem {
namespace {

TEST_CASE("Every reduction is found by its name") {
  for (const ReductionKind kind : kReductionKinds) {
    CHECK(ReductionNamed(ReductionName(kind)) == kind);
  }
  CHECK(std::string(ReductionName(ReductionKind::kProd)) == "prod");
}

TEST_CASE("An unknown computation is called none, and no reduction has that name") {
  CHECK(std::string(ReductionName(std::nullopt)) == "none");
  CHECK_FALSE(ReductionNamed("none").has_value());
  CHECK_FALSE(ReductionNamed("").has_value());
}

TEST_CASE("Integers and predicates have all reductions, floats no bits, complex numbers only sum and prod") {
  const std::map<std::string, std::string> kinds_of = {
      {"all", "sum prod min max and or xor "}, {"ordered", "sum prod min max "}, {"arithmetic", "sum prod "}};
  const std::map<std::string, std::string> group_of = {
      {"pred", "all"},
      {"s8", "all"},
      {"s16", "all"},
      {"s32", "all"},
      {"s64", "all"},
      {"u8", "all"},
      {"u16", "all"},
      {"u32", "all"},
      {"u64", "all"},
      {"f16", "ordered"},
      {"bf16", "ordered"},
      {"f32", "ordered"},
      {"f64", "ordered"},
      {"f8e5m2", "ordered"},
      {"f8e4m3", "ordered"},
      {"f8e4m3fn", "ordered"},
      {"f8e4m3b11fnuz", "ordered"},
      {"f8e5m2fnuz", "ordered"},
      {"f8e4m3fnuz", "ordered"},
      {"f8e3m4", "ordered"},
      {"c64", "arithmetic"},
      {"c128", "arithmetic"},
  };
  for (int32_t number = 0; number <= static_cast<int32_t>(ElementType::kBuffer) + 2; ++number) {
    const auto type = static_cast<ElementType>(number);
    std::string kinds;
    for (const ReductionKind kind : kReductionKinds) {
      if (Supports(type, kind)) {
        kinds += std::string(ReductionName(kind)) + " ";
      }
    }
    CAPTURE(ElementTypeName(type));
    const auto group = group_of.find(ElementTypeName(type));
    CHECK(kinds == (group == group_of.end() ? "" : kinds_of.at(group->second)));
  }
}

}  // namespace
}  // namespace xla_shmem
