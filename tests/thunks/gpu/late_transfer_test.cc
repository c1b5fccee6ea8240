#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "tests/thunks/gpu/gpu_job.h"
#include "xla_patch/thunks/gpu/pair_rings.h"

namespace xla_shmem::testing {
namespace {

using gpu::PermuteArguments;

constexpr char kName[] = "module/op";

TEST_CASE("A peer that never arrives ends the wait with an error that names it, and no result is written") {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(300);
  GpuJob job(options);
  GpuJob::Pe& mine = job.pe(0);
  std::vector<char> operand(1000, 'a'), result(1000, 'b');
  PermuteArguments permute{kName, kTag, 1, 1, {{operand.data()}, {result.data()}, {1000}}};
  OnDevice(mine, [&] {
    CHECK(mine.transfers->StartPermute({1, 1}, permute, mine.compute).message() == "");
    CHECK(mine.transfers->Finish({1, 1}, kName, mine.compute).message() == "");
    return 0;
  });
  REQUIRE(job.Synchronize());
  CHECK(mine.cuda->trapped());
  CHECK(mine.watchdog->Check().message().find("module/op on PE 0 has not finished; PE 1 has put 0 of 1") !=
        std::string::npos);
  CHECK(std::count(result.begin(), result.end(), 'b') == 1000);
  const Status next = OnDevice(mine, [&] { return mine.transfers->StartPermute({1, 2}, permute, mine.compute); });
  CHECK(next.message().find("PE 1 has put 0 of 1") != std::string::npos);
}

TEST_CASE("A graph whose peer stops launching ends with an error, and one whose peer continues does not") {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(1500);  // more than a busy machine may keep a device waiting
  GpuJob job(options);
  std::vector<std::vector<char>> operands(2, std::vector<char>(100, 'x')), results(2, std::vector<char>(100, 'y'));
  for (int pe = 0; pe < 2; ++pe) {
    OnDevice(job.pe(pe), [&] {
      const PermuteArguments permute{kName, kTag, 1 - pe, 1 - pe, {{operands[pe].data()}, {results[pe].data()}, {100}}};
      job.pe(pe).cuda->BeginCapture(job.pe(pe).compute);
      CHECK(job.pe(pe).transfers->RunPermute(permute, job.pe(pe).compute).message() == "");
      job.pe(pe).cuda->EndCapture(job.pe(pe).compute);
      return 0;
    });
  }
  // Longer than the deadline, with launches all along.
  for (int launch = 0; launch < 100; ++launch) {
    for (int pe = 0; pe < 2; ++pe) job.pe(pe).cuda->LaunchGraph(job.pe(pe).compute);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  REQUIRE(job.Synchronize());
  std::this_thread::sleep_for(std::chrono::milliseconds(1800));  // idle for longer than the deadline
  for (int pe = 0; pe < 2; ++pe) CHECK(job.pe(pe).watchdog->Check().ok());
  job.pe(0).cuda->LaunchGraph(job.pe(0).compute);
  REQUIRE(job.pe(0).cuda->Synchronize());
  CHECK(job.pe(0).cuda->trapped());
  CHECK(job.pe(0).watchdog->Check().message() ==
        "module/op on PE 0 has not finished; it waits for PE 1; gave up after the deadline (XLA_SHMEM_DEADLINE)");
  CHECK(job.pe(1).watchdog->Check().ok());
}

TEST_CASE("The deadline of a transfer starts when the GPU comes to it") {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(1500);
  GpuJob job(options);
  std::vector<std::vector<char>> operands(2, std::vector<char>(100, 'x')), results(2, std::vector<char>(100, 'y'));
  for (int pe = 0; pe < 2; ++pe) job.pe(pe).cuda->Pause(true);
  for (int pe = 0; pe < 2; ++pe) {
    OnDevice(job.pe(pe), [&] {
      PermuteArguments permute{kName, kTag, 1 - pe, 1 - pe, {{operands[pe].data()}, {results[pe].data()}, {100}}};
      CHECK(job.pe(pe).transfers->StartPermute({1, 1}, permute, job.pe(pe).compute).message() == "");
      CHECK(job.pe(pe).transfers->Finish({1, 1}, kName, job.pe(pe).compute).message() == "");
      return 0;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  for (int pe = 0; pe < 2; ++pe) job.pe(pe).cuda->Pause(false);
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < 2; ++pe) {
    CHECK(job.pe(pe).watchdog->Check().ok());
    CHECK(results[pe] == operands[1 - pe]);
  }
}

}  // namespace
}  // namespace xla_shmem::testing
