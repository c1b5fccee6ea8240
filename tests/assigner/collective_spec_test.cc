#include "xla_patch/assigner/collective_spec.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

TEST_CASE("element types carry XLA's names and numbers") {
  CHECK(ElementTypeName(11) == "f32");
  CHECK(ElementTypeName(16) == "bf16");
  CHECK(ElementTypeName(28) == "f8e4m3");
  CHECK(ElementTypeName(77) == "type77");
  CHECK(ElementTypeBits(element_type::kF64) == 64);
  CHECK(ElementTypeBits(21) == 4);
  CHECK(ElementTypeBits(element_type::kToken) == 0);
  CHECK(ElementTypeBits(-3) == 0);
}

TEST_CASE("a mixed tuple names each type once") {
  CHECK(ElementTypeNames({11, 16, 11}) == "f32,bf16");
  CHECK(ElementTypeNames({11}) == "f32");
  CHECK(ElementTypeNames({}).empty());
}

TEST_CASE("ops and reductions are called what HLO calls them") {
  CHECK(std::string(OpName(OpKind::kAllReduce)) == "all-reduce");
  CHECK(std::string(OpName(OpKind::kRaggedAllToAll)) == "ragged-all-to-all");
  CHECK(std::string(ReductionName(Reduction::kProd)) == "prod");
}

}  // namespace
}  // namespace xla_shmem
