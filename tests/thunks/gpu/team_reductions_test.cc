#include "xla_patch/thunks/gpu/team_reductions.h"

#include <doctest/doctest.h>

#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/group_case.h"

namespace xla_shmem::testing {
namespace {

TEST_CASE("Groups that are axes of a mesh are reduced on teams, in chunks of the staging memory") {
  GroupCase test{CollectiveOp::kAllReduce, {{0, 2}, {1, 3}}, {ElementType::kF32, ElementType::kU8}, {5000, 77}, true};
  test.team_staging_bytes = 8 << 10;
  RunGroupCase(test);
  test.groups = {{0, 1, 2, 3}};
  test.types = {ElementType::kS32, ElementType::kS64};
  RunGroupCase(test);
}

TEST_CASE("Groups without a team use the lanes beside groups with one") {
  GroupCase test{CollectiveOp::kAllReduce, {{0, 3}, {1, 2}}, {ElementType::kF32}, {5000}};
  test.team_staging_bytes = 8 << 10;
  RunGroupCase(test);
}

TEST_CASE("Teams are those of a mesh's axes") {
  GpuJobOptions options;
  options.n_pes = 6;
  options.team_staging_bytes = 64;
  GpuJob job(options);
  const gpu::Teams& teams = job.pe(2).teams;
  CHECK(teams.Find({0, 1, 2, 3, 4, 5}) == kTeamWorld);
  CHECK(teams.Find({2, 3}) != kTeamInvalid);     // 3 x 2, inner axis
  CHECK(teams.Find({4, 0, 2}) != kTeamInvalid);  // 3 x 2, outer axis
  CHECK(teams.Find({5, 2}) != kTeamInvalid);     // 2 x 3, outer axis
  CHECK(teams.Find({0, 1, 2}) != kTeamInvalid);
  CHECK(teams.Find({0, 2}) == kTeamInvalid);  // not an axis of any 6-PE mesh
  CHECK(teams.Find({1, 2}) == kTeamInvalid);
  CHECK(teams.Find({2}) == kTeamInvalid);
  CHECK(gpu::Teams::CountOfPe(6) == 4);
  CHECK(gpu::Teams::CountOfPe(8) == 5);
}

}  // namespace
}  // namespace xla_shmem::testing
