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

TEST_CASE("element types are found by their names") {
  for (const int32_t type : {element_type::kPred, element_type::kF32, element_type::kBF16, element_type::kF8E8M0FNU}) {
    CHECK(ElementTypeNamed(ElementTypeName(type)) == type);
  }
  CHECK_FALSE(ElementTypeNamed("float32").has_value());
  CHECK_FALSE(ElementTypeNamed("").has_value());
}

TEST_CASE("groups are counted, of a permute the rings and chains") {
  CollectiveSpec spec;
  spec.groups = {{0, 1, 2, 3, 4}, {0, 2, 5}};
  CHECK(CountGroups(spec).number == 2);
  CHECK(CountGroups(spec).largest == 3);
  spec.op = OpKind::kCollectivePermute;
  spec.pairs = {{0, 1}, {1, 2}, {2, 0}, {7, 6}, {9, 9}};
  CHECK(CountGroups(spec).number == 3);
  CHECK(CountGroups(spec).largest == 3);
  CHECK(CountGroups(CollectiveSpec()).largest == 0);
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
