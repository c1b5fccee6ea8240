#include "xla_patch/thunks/gpu/collective_permute.h"

#include <doctest/doctest.h>

#include "tests/thunks/gpu/permute_case.h"

namespace xla_shmem::testing {
namespace {

TEST_CASE("A ring of permutes gives every PE what its source had at the start, however late the streams run") {
  RunPermutesBothWays({{1, 2, 0}, {1000}, false, false, 40});
}

TEST_CASE("Messages larger than all slots go through them in chunks") {
  RunPermutesBothWays({{1, 0}, {300000}, false, false, 3});
}

TEST_CASE("A combined permute carries operands of any size, empty ones included") {
  RunPermutesBothWays({{1, 2, 3, 0}, {1, 40000, 0, 17}});
}

TEST_CASE("Open chains give zeros at their start, self-edges a copy, and PEs without an edge zeros") {
  RunPermutesBothWays({{1, 2, -1, 3, -1}, {5000}});
}

TEST_CASE("Result and operand of a permute may be one buffer") {
  RunPermutesBothWays({{1, 2, 0}, {70000, 3}, /*in_place=*/true});
}

}  // namespace
}  // namespace xla_shmem::testing
