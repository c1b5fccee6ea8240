#include "xla_patch/thunks/gpu/transfers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "tests/thunks/gpu/gpu_job.h"

namespace xla_shmem::testing {
namespace {

using gpu::Puts;
using gpu::StreamAllReduce;
using gpu::StreamPermute;

constexpr char kName[] = "module/op";

std::vector<int> SourcesOf(const std::vector<int>& target_of) {
  std::vector<int> source_of(target_of.size(), -1);
  for (size_t pe = 0; pe < target_of.size(); ++pe) {
    if (target_of[pe] >= 0) source_of[target_of[pe]] = static_cast<int>(pe);
  }
  return source_of;
}

std::vector<int32_t> Pattern(size_t elements, int pe, int round) {
  std::vector<int32_t> values(elements);
  std::iota(values.begin(), values.end(), pe * 100003 + round * 1009);
  return values;
}

struct PermuteCase {
  std::vector<int> target_of;
  std::vector<size_t> elements;  // of each operand, int32
  bool in_place = false;
  bool replay = false;
  int rounds = 5;
};

// Every round writes new operands on the compute stream, behind which the transfer has to wait, and overwrites them as
// soon as it is joined.
void RunPermutes(GpuJob& job, const PermuteCase& test) {
  const std::vector<int> source_of = SourcesOf(test.target_of);
  const size_t parts = test.elements.size();
  std::vector<std::vector<std::vector<int32_t>>> seen(job.n_pes());  // results, by PE and round
  std::vector<std::string> errors(job.n_pes());
  std::vector<std::thread> hosts;
  // Everything that streams touch lives until they are idle.
  std::vector<std::vector<std::vector<int32_t>>> inputs(job.n_pes()), operands(job.n_pes()), results(job.n_pes());
  for (int pe = 0; pe < job.n_pes(); ++pe) {
    for (int round = 0; round < test.rounds; ++round) {
      for (size_t part = 0; part < parts; ++part) {
        inputs[pe].push_back(Pattern(test.elements[part], pe, round * 7 + static_cast<int>(part)));
        seen[pe].emplace_back(test.elements[part], -1);
      }
    }
    for (const size_t elements : test.elements) {
      operands[pe].emplace_back(elements, -2);
      results[pe].emplace_back(elements, -3);
    }
  }
  for (int pe = 0; pe < job.n_pes(); ++pe) {
    hosts.emplace_back([&, pe] {
      GpuJob::Pe& mine = job.pe(pe);
      const gpu::ScopedContext context(*mine.device);
      StreamPermute permute{kName, source_of[pe], test.target_of[pe], {}};
      for (size_t part = 0; part < parts; ++part) {
        auto& result = test.in_place ? operands[pe][part] : results[pe][part];
        permute.buffers.operands.push_back(reinterpret_cast<char*>(operands[pe][part].data()));
        permute.buffers.results.push_back(reinterpret_cast<char*>(result.data()));
        permute.buffers.bytes.push_back(test.elements[part] * 4);
      }
      for (int round = 0; round < test.rounds && errors[pe].empty(); ++round) {
        for (size_t part = 0; part < parts; ++part) {
          mine.device->Copy(operands[pe][part].data(), inputs[pe][round * parts + part].data(),
                            permute.buffers.bytes[part], mine.compute);
        }
        if (test.replay) {
          errors[pe] = mine.transfers->ReplayPermute(permute, mine.compute);
        } else {
          errors[pe] = mine.transfers->StartPermute({1, round}, permute, mine.compute);
          if (errors[pe].empty()) errors[pe] = mine.transfers->Finish({1, round}, kName, mine.compute);
        }
        for (size_t part = 0; part < parts; ++part) {
          mine.device->Copy(seen[pe][round * parts + part].data(), permute.buffers.results[part],
                            permute.buffers.bytes[part], mine.compute);
        }
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < job.n_pes(); ++pe) {
    CHECK(errors[pe] == "");
    CHECK(job.pe(pe).failures.empty());
    for (size_t i = 0; i < seen[pe].size(); ++i) {
      const auto expected = source_of[pe] < 0 ? std::vector<int32_t>(seen[pe][i].size(), 0) : inputs[source_of[pe]][i];
      CHECK(seen[pe][i] == expected);
    }
  }
}

void RunPermutesBothWays(const PermuteCase& test) {
  for (const Puts puts : {Puts::kDriver, Puts::kNvshmem}) {
    GpuJobOptions options;
    options.n_pes = static_cast<int>(test.target_of.size());
    options.puts = puts;
    GpuJob job(options);
    RunPermutes(job, test);
  }
}

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

TEST_CASE("The self-joined form gives the same, large and in place too") {
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
        StreamPermute permute{kName, (pe + 2) % 3, (pe + 1) % 3, {}};
        permute.buffers = {{reinterpret_cast<char*>(operands[pe].data())},
                           {reinterpret_cast<char*>(results[pe].data())},
                           {kElements * 4}};
        mine.cuda->BeginCapture(mine.compute);
        CHECK(mine.transfers->ReplayPermute(permute, mine.compute) == "");
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

TEST_CASE("An overlapping transfer refuses to be captured") {
  GpuJob job({});
  GpuJob::Pe& mine = job.pe(0);
  const gpu::ScopedContext context(*mine.device);
  mine.cuda->BeginCapture(mine.compute);
  const std::string error = mine.transfers->StartPermute({1, 1}, {kName, -1, -1, {}}, mine.compute);
  CHECK(error.find("captured into a CUDA graph") != std::string::npos);
  mine.cuda->EndCapture(mine.compute);
}

TEST_CASE("Several permutes may be under way, and be joined in any order") {
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
        StreamPermute permute{kName, 1 - pe, 1 - pe, {}};
        permute.buffers = {{reinterpret_cast<char*>(operands[pe][op].data())},
                           {reinterpret_cast<char*>(results[pe][op].data())},
                           {kElements * 4}};
        CHECK(mine.transfers->StartPermute({static_cast<uint64_t>(op), 9}, permute, mine.compute) == "");
      }
      for (int op = kInFlight; op-- > 0;) {
        CHECK(mine.transfers->Finish({static_cast<uint64_t>(op), 9}, kName, mine.compute) == "");
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < 2; ++pe) CHECK(results[pe] == operands[1 - pe]);
}

TEST_CASE("A done without its start is an error") {
  GpuJob job({});
  const std::string error =
      OnDevice(job.pe(0), [&] { return job.pe(0).transfers->Finish({3, 4}, kName, job.pe(0).compute); });
  CHECK(error == "module/op: its done ran without its start");
}

TEST_CASE("Operands that overlap results askew are refused") {
  GpuJob job({});
  std::vector<char> memory(256);
  StreamPermute permute{kName, -1, -1, {{memory.data()}, {memory.data() + 64}, {128}}};
  const std::string error =
      OnDevice(job.pe(0), [&] { return job.pe(0).transfers->StartPermute({1, 1}, permute, job.pe(0).compute); });
  CHECK(error.find("operand 0 overlaps result 0") != std::string::npos);
}

TEST_CASE("A peer that never comes ends the wait with an error that names it, and no result is seen") {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(300);
  GpuJob job(options);
  GpuJob::Pe& mine = job.pe(0);
  std::vector<char> operand(1000, 'a'), result(1000, 'b');
  StreamPermute permute{kName, 1, 1, {{operand.data()}, {result.data()}, {1000}}};
  OnDevice(mine, [&] {
    CHECK(mine.transfers->StartPermute({1, 1}, permute, mine.compute) == "");
    CHECK(mine.transfers->Finish({1, 1}, kName, mine.compute) == "");
    return 0;
  });
  REQUIRE(job.Synchronize());
  CHECK(mine.cuda->trapped());
  CHECK(mine.watchdog->failure().find("module/op on PE 0 has not finished within the deadline; PE 1 has put 0 of 1") !=
        std::string::npos);
  CHECK(std::count(result.begin(), result.end(), 'b') == 1000);
  const std::string next = OnDevice(mine, [&] { return mine.transfers->StartPermute({1, 2}, permute, mine.compute); });
  CHECK(next.find("PE 1 has put 0 of 1") != std::string::npos);
}

TEST_CASE("A graph whose peer stops launching ends with an error too, and one that goes on does not") {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(1500);  // more than a busy machine may keep a device waiting
  GpuJob job(options);
  std::vector<std::vector<char>> operands(2, std::vector<char>(100, 'x')), results(2, std::vector<char>(100, 'y'));
  for (int pe = 0; pe < 2; ++pe) {
    OnDevice(job.pe(pe), [&] {
      const StreamPermute permute{kName, 1 - pe, 1 - pe, {{operands[pe].data()}, {results[pe].data()}, {100}}};
      job.pe(pe).cuda->BeginCapture(job.pe(pe).compute);
      CHECK(job.pe(pe).transfers->ReplayPermute(permute, job.pe(pe).compute) == "");
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
  for (int pe = 0; pe < 2; ++pe) CHECK(job.pe(pe).watchdog->failure() == "");
  job.pe(0).cuda->LaunchGraph(job.pe(0).compute);
  REQUIRE(job.pe(0).cuda->Synchronize());
  CHECK(job.pe(0).cuda->trapped());
  CHECK(job.pe(0).watchdog->failure().find("an operation of a CUDA graph has not finished") == 0);
  CHECK(job.pe(0).watchdog->failure().find("module/op") != std::string::npos);
  CHECK(job.pe(1).watchdog->failure() == "");
}

TEST_CASE("The deadline of a transfer only runs once the GPU has come to it") {
  GpuJobOptions options;
  options.deadline = std::chrono::milliseconds(1500);
  GpuJob job(options);
  std::vector<std::vector<char>> operands(2, std::vector<char>(100, 'x')), results(2, std::vector<char>(100, 'y'));
  for (int pe = 0; pe < 2; ++pe) job.pe(pe).cuda->Pause(true);
  for (int pe = 0; pe < 2; ++pe) {
    OnDevice(job.pe(pe), [&] {
      StreamPermute permute{kName, 1 - pe, 1 - pe, {{operands[pe].data()}, {results[pe].data()}, {100}}};
      CHECK(job.pe(pe).transfers->StartPermute({1, 1}, permute, job.pe(pe).compute) == "");
      CHECK(job.pe(pe).transfers->Finish({1, 1}, kName, job.pe(pe).compute) == "");
      return 0;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
  for (int pe = 0; pe < 2; ++pe) job.pe(pe).cuda->Pause(false);
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < 2; ++pe) {
    CHECK(job.pe(pe).watchdog->failure() == "");
    CHECK(results[pe] == operands[1 - pe]);
  }
}

}  // namespace
}  // namespace xla_shmem::testing
