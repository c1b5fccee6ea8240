#include "xla_patch/thunks/gpu/collectives.h"

#include <doctest/doctest.h>

#include "tests/thunks/gpu/gpu_job.h"

namespace xla_shmem::testing {
namespace {

using gpu::PermuteArguments;

constexpr char kName[] = "module/op";

TEST_CASE("Operands that partly overlap results are refused") {
  GpuJob job({});
  std::vector<char> memory(256);
  PermuteArguments permute{kName, kTag, -1, -1, {{memory.data()}, {memory.data() + 64}, {128}}};
  const Status error =
      OnDevice(job.pe(0), [&] { return job.pe(0).transfers->StartPermute({1, 1}, permute, job.pe(0).compute); });
  CHECK(error.message().find("operand 0 overlaps result 0") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::testing
