#include "xla_patch/thunks/gpu/replay.h"

#include <doctest/doctest.h>

#include <random>
#include <thread>

#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/permute_case.h"

namespace xla_shmem::testing {
namespace {

using gpu::PermuteArguments;
using gpu::Puts;

constexpr char kName[] = "module/op";

TEST_CASE("A replayed permute gives the same results, also large and in place") {
  RunPermutesBothWays({{1, 2, 0}, {100000, 5}, false, /*replay=*/true});
  RunPermutesBothWays({{1, 0, -1}, {70000}, /*in_place=*/true, /*replay=*/true});
}

TEST_CASE("A permute captured into a graph can be launched again and again, at different speeds") {
  for (const Puts puts : {Puts::kDriver, Puts::kNvshmem}) {
    GpuJobOptions options;
    options.n_pes = 3;
    options.puts = puts;
    GpuJob job(options);
    constexpr int kLaunches = 300;
    constexpr size_t kElements = 40000;
    std::vector<std::vector<int32_t>> operands, results;
    for (int pe = 0; pe < 3; ++pe) {
      operands.push_back(Pattern(kElements, pe, 0));
      results.emplace_back(kElements, -1);
    }
    std::vector<std::thread> hosts;
    for (int pe = 0; pe < 3; ++pe) {
      hosts.emplace_back([&, pe] {
        GpuJob::Pe& mine = job.pe(pe);
        const gpu::ScopedContext context(*mine.device);
        // Operand := result at the end, so each launch moves the pattern on by one PE.
        PermuteArguments permute{kName, (pe + 2) % 3, (pe + 1) % 3, {}};
        permute.buffers = {{reinterpret_cast<char*>(operands[pe].data())},
                           {reinterpret_cast<char*>(results[pe].data())},
                           {kElements * 4}};
        mine.cuda->BeginCapture(mine.compute);
        CHECK(mine.transfers->ReplayPermute(permute, mine.compute).message() == "");
        mine.device->Copy(operands[pe].data(), results[pe].data(), kElements * 4, mine.compute);
        mine.cuda->EndCapture(mine.compute);
        std::mt19937 random(pe);
        for (int launch = 0; launch < kLaunches; ++launch) {
          if (random() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
          mine.cuda->LaunchGraph(mine.compute);
        }
      });
    }
    for (std::thread& host : hosts) host.join();
    REQUIRE(job.Synchronize());
    for (int pe = 0; pe < 3; ++pe) CHECK(results[pe] == Pattern(kElements, (pe + 3 - kLaunches % 3) % 3, 0));
  }
}

}  // namespace
}  // namespace xla_shmem::testing
