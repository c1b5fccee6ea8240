#include "xla_patch/types/reduction_kind.h"

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace xla_shmem
