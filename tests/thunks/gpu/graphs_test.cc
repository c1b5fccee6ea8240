// Permutes of one call in CUDA graphs: kernels, whatever their size and whatever carries overlapping permutes.
#include <doctest/doctest.h>

#include <random>
#include <thread>

#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/permute_case.h"

namespace xla_shmem::testing {
namespace {

using gpu::PermuteArguments;

constexpr char kName[] = "module/op";

TEST_CASE("A permute captured into a graph can be launched again and again, at different speeds") {
  for (const GpuPermute permute_by : {GpuPermute::kCopies, GpuPermute::kAuto}) {
    GpuJobOptions options;
    options.n_pes = 3;
    options.permute = permute_by;
    constexpr int kLaunches = 100;
    constexpr size_t kElements = 40000;
    std::vector<std::vector<int32_t>> operands, results;
    for (int pe = 0; pe < 3; ++pe) {
      operands.push_back(Pattern(kElements, pe, 0));
      results.emplace_back(kElements, -1);
    }
    GpuJob job(options);
    std::vector<std::thread> hosts;
    for (int pe = 0; pe < 3; ++pe) {
      hosts.emplace_back([&, pe] {
        GpuJob::Pe& mine = job.pe(pe);
        const gpu::ScopedContext context(*mine.device);
        // Operand := result at the end, so each launch moves the pattern on by one PE.
        PermuteArguments permute{kName, kTag, (pe + 2) % 3, (pe + 1) % 3, {}};
        permute.buffers = {{reinterpret_cast<char*>(operands[pe].data())},
                           {reinterpret_cast<char*>(results[pe].data())},
                           {kElements * 4}};
        mine.cuda->BeginCapture(mine.compute);
        CHECK(mine.transfers->RunPermute(permute, mine.compute).message() == "");
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

// Each PE runs graphs of permutes of other directions and sizes and permutes of the stream in the same random order.
TEST_CASE("Graphs that share lanes may be launched in any order, between permutes outside of graphs") {
  constexpr int kPes = 3, kGraphs = 4, kSteps = 60;
  const size_t elements[] = {1, 5000, 70000, 40000};
  GpuJobOptions options;
  options.n_pes = kPes;
  GpuJob job(options);
  std::vector<std::vector<std::vector<int32_t>>> operands(kPes), results(kPes), seen(kPes);
  std::vector<std::vector<std::vector<int32_t>>> inputs(kPes);
  std::mt19937 random(7);
  std::vector<int> order(kSteps);
  for (int& step : order) step = static_cast<int>(random() % kGraphs);
  for (int pe = 0; pe < kPes; ++pe) {
    for (int graph = 0; graph < kGraphs; ++graph) {
      operands[pe].emplace_back(elements[graph], 0);
      results[pe].emplace_back(elements[graph], 0);
    }
    for (int step = 0; step < kSteps; ++step) {
      inputs[pe].push_back(Pattern(elements[order[step]], pe, step));
      seen[pe].emplace_back(elements[order[step]], -1);
    }
  }
  const auto shift = [](int graph) { return 1 + graph % 2; };
  std::vector<std::thread> hosts;
  for (int pe = 0; pe < kPes; ++pe) {
    hosts.emplace_back([&, pe] {
      GpuJob::Pe& mine = job.pe(pe);
      const gpu::ScopedContext context(*mine.device);
      const auto enqueue = [&](int graph) {
        PermuteArguments permute{
            kName, kTag + graph, (pe + kPes - shift(graph)) % kPes, (pe + shift(graph)) % kPes, {}};
        permute.buffers = {{reinterpret_cast<char*>(operands[pe][graph].data())},
                           {reinterpret_cast<char*>(results[pe][graph].data())},
                           {elements[graph] * 4}};
        CHECK(mine.transfers->RunPermute(permute, mine.compute).message() == "");
      };
      // One graph of the double at a time: captured again when the next one is another.
      int captured = -1;
      for (int step = 0; step < kSteps; ++step) {
        const int graph = order[step];
        mine.device->Copy(operands[pe][graph].data(), inputs[pe][step].data(), elements[graph] * 4, mine.compute);
        if (step % 3 == 0) {
          enqueue(graph);
        } else {
          if (captured != graph) {
            mine.cuda->BeginCapture(mine.compute);
            enqueue(graph);
            mine.cuda->EndCapture(mine.compute);
          }
          captured = graph;
          mine.cuda->LaunchGraph(mine.compute);
        }
        mine.device->Copy(seen[pe][step].data(), results[pe][graph].data(), elements[graph] * 4, mine.compute);
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < kPes; ++pe) {
    for (int step = 0; step < kSteps; ++step) {
      CAPTURE(step);
      CHECK(seen[pe][step] == inputs[(pe + kPes - shift(order[step])) % kPes][step]);
    }
  }
}

}  // namespace
}  // namespace xla_shmem::testing
