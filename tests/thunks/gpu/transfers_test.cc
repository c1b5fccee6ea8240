#include "xla_patch/thunks/gpu/transfers.h"

#include <doctest/doctest.h>

#include <thread>

#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/permute_case.h"

namespace xla_shmem::testing {
namespace {

using gpu::PermuteArguments;

constexpr char kName[] = "module/op";

TEST_CASE("The capture of an overlapping transfer is an error") {
  GpuJob job({});
  GpuJob::Pe& mine = job.pe(0);
  const gpu::ScopedContext context(*mine.device);
  mine.cuda->BeginCapture(mine.compute);
  const Status error = mine.transfers->StartPermute({1, 1}, {kName, -1, -1, {}}, mine.compute);
  CHECK(error.message().find("captured into a CUDA graph") != std::string::npos);
  mine.cuda->EndCapture(mine.compute);
}

TEST_CASE("Several permutes may be in flight and joined in any order") {
  GpuJobOptions options;
  options.n_pes = 2;
  GpuJob job(options);
  constexpr int kInFlight = 6;
  constexpr size_t kElements = 30000;
  std::vector<std::vector<std::vector<int32_t>>> operands(2), results(2);
  std::vector<std::thread> hosts;
  for (int pe = 0; pe < 2; ++pe) {
    for (int op = 0; op < kInFlight; ++op) {
      operands[pe].push_back(Pattern(kElements, pe, op));
      results[pe].emplace_back(kElements, -1);
    }
  }
  for (int pe = 0; pe < 2; ++pe) {
    hosts.emplace_back([&, pe] {
      GpuJob::Pe& mine = job.pe(pe);
      const gpu::ScopedContext context(*mine.device);
      for (int op = 0; op < kInFlight; ++op) {
        PermuteArguments permute{kName, 1 - pe, 1 - pe, {}};
        permute.buffers = {{reinterpret_cast<char*>(operands[pe][op].data())},
                           {reinterpret_cast<char*>(results[pe][op].data())},
                           {kElements * 4}};
        CHECK(mine.transfers->StartPermute({static_cast<uint64_t>(op), 9}, permute, mine.compute).message() == "");
      }
      for (int op = kInFlight; op-- > 0;) {
        CHECK(mine.transfers->Finish({static_cast<uint64_t>(op), 9}, kName, mine.compute).message() == "");
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < 2; ++pe) CHECK(results[pe] == operands[1 - pe]);
}

TEST_CASE("A done without its start is an error") {
  GpuJob job({});
  const Status error =
      OnDevice(job.pe(0), [&] { return job.pe(0).transfers->Finish({3, 4}, kName, job.pe(0).compute); });
  CHECK(error.message() == "module/op: its done ran without its start");
}

}  // namespace
}  // namespace xla_shmem::testing
