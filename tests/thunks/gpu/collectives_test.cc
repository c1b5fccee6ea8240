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

TEST_CASE("A buffer without bytes overlaps nothing, and neighbours do not either") {
  char memory[256];
  for (char* const empty : {memory, memory + 64, memory + 128}) {
    CHECK(gpu::CheckOverlaps({{memory, empty}, {memory + 128, memory + 64}, {128, 0}}).ok());
    CHECK(gpu::CheckOverlaps({{memory + 128, memory + 64}, {memory, empty}, {128, 0}}).ok());
  }
  CHECK(!gpu::CheckOverlaps({{memory, memory + 64}, {memory + 128, memory + 65}, {128, 1}}).ok());
}

}  // namespace
}  // namespace xla_shmem::testing
