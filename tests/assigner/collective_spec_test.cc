#include "xla_patch/assigner/collective_spec.h"

#include <doctest/doctest.h>

namespace xla_shmem {
namespace {

TEST_CASE("groups are counted, of a permute the rings and chains") {
  CollectiveSpec spec;
  spec.groups = {{0, 1, 2, 3, 4}, {0, 2, 5}};
  CHECK(CountGroups(spec).number == 2);
  CHECK(CountGroups(spec).largest == 3);
  spec.op = CollectiveOp::kCollectivePermute;
  spec.pairs = {{0, 1}, {1, 2}, {2, 0}, {7, 6}, {9, 9}};
  CHECK(CountGroups(spec).number == 3);
  CHECK(CountGroups(spec).largest == 3);
  CHECK(CountGroups(CollectiveSpec()).largest == 0);
}

}  // namespace
}  // namespace xla_shmem
