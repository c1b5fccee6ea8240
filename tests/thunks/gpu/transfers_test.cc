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
  for (const GpuPermute permute : {GpuPermute::kCopies, GpuPermute::kKernel}) {
    GpuJobOptions options;
    options.permute = permute;
    GpuJob job(options);
    GpuJob::Pe& mine = job.pe(0);
    const gpu::ScopedContext context(*mine.device);
    mine.cuda->BeginCapture(mine.compute);
    const Status error = mine.transfers->StartPermute({1, 1}, {kName, kTag, -1, -1, {}}, mine.compute);
    CHECK(error.message().find("captured into a CUDA graph") != std::string::npos);
    mine.cuda->EndCapture(mine.compute);
  }
}

TEST_CASE("Calls on a second stream are refused while those on the first are in flight, but for captured ones") {
  GpuJob job({});
  std::vector<float> memory(16, 1.0F);
  gpu::GroupArguments group;
  group.name = kName;
  group.tag = kTag;
  group.group = {0, 1};
  group.types = {ElementType::kF32};
  const auto run = [&](int pe, gpu::CudaStream stream) {
    char* const operand = reinterpret_cast<char*>(&memory[static_cast<size_t>(pe) * 8]);
    group.buffers = {{operand}, {operand + 16}, {16}};
    const gpu::ScopedContext context(*job.pe(pe).device);
    return job.pe(pe).transfers->RunGroup(group, stream).message();
  };
  GpuJob::Pe& mine = job.pe(0);
  const gpu::CudaStream second = [&] {
    const gpu::ScopedContext context(*mine.device);
    return mine.cuda->CreateStream();
  }();
  CHECK(run(0, mine.compute) == "");
  const size_t before = mine.cuda->commands();
  CHECK(run(0, second).find("module/op: it runs on a second stream") == 0);
  CHECK(mine.cuda->commands() == before);
  CHECK(run(1, job.pe(1).compute) == "");
  REQUIRE(job.Synchronize());
  // As after clear_backends: the first stream is gone.
  CHECK(run(0, second) == "");
  CHECK(run(0, mine.compute).find("module/op: it runs on a second stream") == 0);
  mine.cuda->BeginCapture(mine.compute);
  CHECK(run(0, mine.compute) == "");
  mine.cuda->EndCapture(mine.compute);
  CHECK(run(1, job.pe(1).compute) == "");
  REQUIRE(job.Synchronize());
  CHECK(memory[4] == 2.0F);
  CHECK(memory[12] == 2.0F);
}

void CheckInFlight(GpuPermute permute_by) {
  GpuJobOptions options;
  options.permute = permute_by;
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
        PermuteArguments permute{kName, kTag, 1 - pe, 1 - pe, {}};
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

TEST_CASE("Several permutes may be in flight and joined in any order") {
  CheckInFlight(GpuPermute::kCopies);
  CheckInFlight(GpuPermute::kKernel);
}

// The other PE has started only one of two operations. XLA's order is the same on all PEs, so this shows more than a
// program needs: neither kind of stream waits for the other.
TEST_CASE("Permutes by copies and collectives of groups that overlap do not wait for each other") {
  for (const bool permute_first : {false, true}) {
    CAPTURE(permute_first);
    GpuJob job({});
    std::vector<int32_t> operands[2], moved[2], summed[2];
    for (int pe = 0; pe < 2; ++pe) {
      operands[pe] = Pattern(30000, pe, 0);
      moved[pe] = summed[pe] = std::vector<int32_t>(30000, -1);
    }
    const auto buffers = [&](int pe, std::vector<int32_t>* results) -> gpu::Buffers {
      return {{reinterpret_cast<char*>(operands[pe].data())}, {reinterpret_cast<char*>(results[pe].data())}, {120000}};
    };
    const auto permute = [&](int pe) {
      return job.pe(pe).transfers->StartPermute({1, 1}, {kName, kTag, 1 - pe, 1 - pe, buffers(pe, moved)},
                                                job.pe(pe).compute);
    };
    const auto sum = [&](int pe) {
      gpu::GroupArguments arguments;
      arguments.name = kName;
      arguments.tag = kTag;
      arguments.group = {0, 1};
      arguments.types = {ElementType::kS32};
      arguments.buffers = buffers(pe, summed);
      return job.pe(pe).transfers->StartGroup({2, 1}, arguments, job.pe(pe).compute);
    };
    const auto run = [&](int pe, bool permutes) {
      OnDevice(job.pe(pe), [&] {
        CHECK((permutes ? permute(pe) : sum(pe)).message() == "");
        return 0;
      });
    };
    run(0, permute_first);   // waits for PE 1
    run(0, !permute_first);  // behind it
    run(1, !permute_first);
    OnDevice(job.pe(1), [&] {
      CHECK(job.pe(1).transfers->Finish({permute_first ? 2u : 1u, 1}, kName, job.pe(1).compute).message() == "");
      return 0;
    });
    REQUIRE(job.pe(1).cuda->Synchronize());
    const auto expected = [&](int pe, bool permutes) {
      std::vector<int32_t> values = operands[1 - pe];
      for (size_t i = 0; i < values.size() && !permutes; ++i) values[i] += operands[pe][i];
      return values;
    };
    CHECK((permute_first ? summed : moved)[1] == expected(1, !permute_first));
    CHECK((permute_first ? moved : summed)[1] == std::vector<int32_t>(30000, -1));
    run(1, permute_first);
    REQUIRE(job.Synchronize());
    for (int pe = 0; pe < 2; ++pe) {
      CHECK(moved[pe] == expected(pe, true));
      CHECK(summed[pe] == expected(pe, false));
    }
  }
}

TEST_CASE("A done without its start is an error") {
  GpuJob job({});
  const Status error =
      OnDevice(job.pe(0), [&] { return job.pe(0).transfers->Finish({3, 4}, kName, job.pe(0).compute); });
  CHECK(error.message() == "module/op: its done ran without its start");
}

}  // namespace
}  // namespace xla_shmem::testing
