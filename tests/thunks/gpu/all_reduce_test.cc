#include "xla_patch/thunks/gpu/all_reduce.h"

#include <doctest/doctest.h>

#include "tests/thunks/gpu/all_reduce_case.h"
#include "tests/thunks/gpu/gpu_job.h"

namespace xla_shmem::testing {
namespace {

TEST_CASE("A small all-reduce gives the bits of the CPU's reduction on every PE") {
  RunBothWays({{{0, 1, 2}}, {ElementType::kF32}, {1001}});
}

TEST_CASE("A large all-reduce, two-shot, gives the same bits") {
  RunBothWays({{{0, 1}}, {ElementType::kF32}, {400000}});
  RunBothWays({{{2, 0, 1, 3}}, {ElementType::kBf16}, {600001}, /*in_place=*/true});
}

TEST_CASE("Operand and result of an all-reduce may be one buffer") {
  RunBothWays({{{0, 1, 2}}, {ElementType::kF32, ElementType::kF16}, {1001, 33}, /*in_place=*/true});
  RunBothWays({{{0, 1, 2}}, {ElementType::kS32}, {300000}, /*in_place=*/true});
}

TEST_CASE("Combined all-reduces may mix types and hold empty operands") {
  RunBothWays({{{0, 1}}, {ElementType::kF32, ElementType::kS8, ElementType::kF64}, {5, 0, 4099}});
}

TEST_CASE("Groups of any form work side by side, also a group of one") {
  RunBothWays({{{0, 3}, {2, 1}, {4}}, {ElementType::kF32}, {2000}});
}

TEST_CASE("A small arena only makes it slower") {
  RunBothWays({{{0, 1, 2}}, {ElementType::kF32}, {100000}, true, Form::kOverlapping, ReductionKind::kMax, 48 << 10});
}

TEST_CASE("An all-reduce of a group without this PE is an error") {
  GpuJob job({});
  gpu::AllReduceArguments all_reduce{"module/sum", ReductionKind::kSum, {1}, {}, {}};
  const Status error =
      OnDevice(job.pe(0), [&] { return job.pe(0).transfers->StartAllReduce({1, 1}, all_reduce, job.pe(0).compute); });
  CHECK(error.message().find("PE 0 is not in its replica group") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::testing
