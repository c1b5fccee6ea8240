#include "xla_patch/thunks/gpu/collective_permute.h"

#include <doctest/doctest.h>

#include "tests/thunks/gpu/permute_case.h"

namespace xla_shmem::testing {
namespace {

TEST_CASE("A ring of permutes gives every PE its source's data at the start, however late the streams run") {
  RunPermutesBothWays({{1, 2, 0}, {1000}, false, false, 40});
}

TEST_CASE("Messages larger than all slots go through them in chunks") {
  RunPermutesBothWays({{1, 0}, {300000}, false, false, 3});
}

TEST_CASE("A combined permute transfers operands of any size, also empty ones") {
  RunPermutesBothWays({{1, 2, 3, 0}, {1, 40000, 0, 17}});
}

TEST_CASE("PEs without a source get zeros, and a PE that sends to itself gets a copy") {
  RunPermutesBothWays({{1, 2, -1, 3, -1}, {5000}});
}

TEST_CASE("A driver without batches of memory operations runs them one by one") {
  for (const bool in_place : {false, true}) {
    PermuteCase test{{1, 2, 0}, {70000, 3}, in_place, false, 3};
    test.batches = false;
    RunPermutesBothWays(test);
  }
}

TEST_CASE("Permutes go through the driver's symmetric memory") {
  PermuteCase test{{1, 2, 0}, {70000, 3}, /*in_place=*/false, false, 3};
  test.driver_heap = true;
  RunPermutesBothWays(test);
  RunPermutesByKernel(test);
}

TEST_CASE("A PE without a source keeps its results if it is told to") {
  RunPermutesBothWays({{1, 2, -1}, {70000, 5}, false, false, 2, true, /*keeps_results=*/true});
}

TEST_CASE("Result and operand of a permute may be one buffer") {
  RunPermutesBothWays({{1, 2, 0}, {70000, 3}, /*in_place=*/true});
}

}  // namespace
}  // namespace xla_shmem::testing
