#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "tests/doubles/host_api.h"
#include "tests/thunks/gpu/gpu_job.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::testing {
namespace {

using gpu::Puts;
using gpu::StreamAllReduce;

enum class Form { kOverlapping, kReplay, kGraph };

struct AllReduceCase {
  std::vector<std::vector<int>> groups;
  std::vector<ElementType> types;
  std::vector<size_t> elements;
  bool in_place = false;
  Form form = Form::kOverlapping;
  ReductionKind kind = ReductionKind::kSum;
  size_t arena_bytes = 1 << 20;
  size_t team_staging_bytes = 0;
};

// Random bytes that are finite numbers in every type.
std::vector<char> Values(ElementType type, size_t elements, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(elements * ElementBytes(type));
  for (size_t i = 0; i < elements; ++i) {
    char* at = bytes.data() + i * ElementBytes(type);
    if (type == ElementType::kF32) {
      const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64;
      memcpy(at, &value, 4);
    } else if (type == ElementType::kF64) {
      const double value = (static_cast<double>(random()) - 2e9) / 3;
      memcpy(at, &value, 8);
    } else if (type == ElementType::kBf16 || type == ElementType::kF16) {
      const uint16_t bits = (random() & 0x83ff) | 0x3800;
      memcpy(at, &bits, 2);
    } else {
      for (size_t byte = 0; byte < ElementBytes(type); ++byte) at[byte] = static_cast<char>(random());
    }
  }
  return bytes;
}

void RunAllReduces(const AllReduceCase& test, Puts puts) {
  int n_pes = 0;
  for (const auto& group : test.groups) n_pes += static_cast<int>(group.size());
  GpuJobOptions options;
  options.n_pes = n_pes;
  options.puts = puts;
  options.arena_bytes = test.arena_bytes;
  options.team_staging_bytes = test.team_staging_bytes;
  GpuJob job(options);
  constexpr int kRounds = 3;
  const size_t parts = test.types.size();
  std::vector<std::vector<std::vector<char>>> inputs(n_pes), operands(n_pes), results(n_pes), seen(n_pes);
  for (int pe = 0; pe < n_pes; ++pe) {
    for (size_t part = 0; part < parts; ++part) {
      inputs[pe].push_back(Values(test.types[part], test.elements[part], pe * 31 + static_cast<unsigned>(part)));
      operands[pe].emplace_back(inputs[pe][part].size(), 1);
      results[pe].emplace_back(inputs[pe][part].size(), 2);
      for (int round = 0; round < kRounds; ++round) seen[pe].emplace_back(inputs[pe][part].size(), 3);
    }
  }
  std::vector<std::thread> hosts;
  for (const auto& group : test.groups) {
    for (const int pe : group) {
      hosts.emplace_back([&, pe] {
        shm::BindPe(pe);
        GpuJob::Pe& mine = job.pe(pe);
        const gpu::ScopedContext context(*mine.device);
        StreamAllReduce all_reduce{"module/sum", test.kind, group, test.types, {}};
        for (size_t part = 0; part < parts; ++part) {
          all_reduce.buffers.operands.push_back(operands[pe][part].data());
          all_reduce.buffers.results.push_back((test.in_place ? operands : results)[pe][part].data());
          all_reduce.buffers.bytes.push_back(operands[pe][part].size());
        }
        if (test.form == Form::kGraph) mine.cuda->BeginCapture(mine.compute);
        for (int round = 0; round < (test.form == Form::kGraph ? 1 : kRounds); ++round) {
          for (size_t part = 0; part < parts; ++part) {
            mine.device->Copy(operands[pe][part].data(), inputs[pe][part].data(), inputs[pe][part].size(),
                              mine.compute);
          }
          if (test.form == Form::kOverlapping) {
            CHECK(mine.transfers->StartAllReduce({7, round}, all_reduce, mine.compute) == "");
            CHECK(mine.transfers->Finish({7, round}, "module/sum", mine.compute) == "");
          } else {
            CHECK(mine.transfers->ReplayAllReduce(all_reduce, mine.compute) == "");
          }
          for (size_t part = 0; part < parts; ++part) {
            mine.device->Copy(seen[pe][part * kRounds + round].data(), all_reduce.buffers.results[part],
                              inputs[pe][part].size(), mine.compute);
          }
        }
        if (test.form == Form::kGraph) {
          mine.cuda->EndCapture(mine.compute);
          for (int launch = 0; launch < 50; ++launch) mine.cuda->LaunchGraph(mine.compute);
        }
      });
    }
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (const auto& group : test.groups) {
    for (size_t part = 0; part < parts; ++part) {
      std::vector<const char*> members;
      for (const int pe : group) members.push_back(inputs[pe][part].data());
      std::vector<char> expected(inputs[group[0]][part].size());
      Reduce(test.types[part], test.kind, members.data(), members.size(), test.elements[part], expected.data());
      for (const int pe : group) {
        for (int round = 0; round < (test.form == Form::kGraph ? 1 : kRounds); ++round) {
          CHECK(seen[pe][part * kRounds + round] == expected);
        }
      }
    }
  }
}

void RunBothWays(const AllReduceCase& test) {
  for (const Puts puts : {Puts::kDriver, Puts::kNvshmem}) RunAllReduces(test, puts);
}

TEST_CASE("A small all-reduce on streams gives the bits of the CPU's reduction on every PE") {
  RunBothWays({{{0, 1, 2}}, {ElementType::kF32}, {1001}});
}

TEST_CASE("A large one, two-shot, gives the same bits") {
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

TEST_CASE("Groups of any form work side by side, a group of one included") {
  RunBothWays({{{0, 3}, {2, 1}, {4}}, {ElementType::kF32}, {2000}});
}

TEST_CASE("Tight arenas only make it slower") {
  RunBothWays({{{0, 1, 2}}, {ElementType::kF32}, {100000}, true, Form::kOverlapping, ReductionKind::kMax, 48 << 10});
}

TEST_CASE("The self-joined form of an all-reduce gives the same bits, in and out of place") {
  RunBothWays({{{0, 1, 2}}, {ElementType::kF32, ElementType::kU8}, {50001, 3}, false, Form::kReplay});
  RunBothWays({{{1, 0}}, {ElementType::kBf16}, {200000}, true, Form::kReplay, ReductionKind::kMin, 128 << 10});
}

TEST_CASE("A captured all-reduce can be launched again and again") {
  RunBothWays({{{0, 1, 2}}, {ElementType::kF32}, {3000}, true, Form::kGraph});
}

TEST_CASE("Groups that are axes of a mesh are reduced on teams, in chunks of the staging memory") {
  AllReduceCase test{{{0, 2}, {1, 3}}, {ElementType::kF32, ElementType::kU8}, {5000, 77}, /*in_place=*/true};
  test.team_staging_bytes = 8 << 10;
  RunBothWays(test);
  test.groups = {{0, 1, 2, 3}};
  test.types = {ElementType::kS32, ElementType::kS64};
  RunBothWays(test);
}

TEST_CASE("Groups without a team go over the rings beside those with one") {
  AllReduceCase test{{{0, 3}, {1, 2}}, {ElementType::kF32}, {5000}};
  test.team_staging_bytes = 8 << 10;
  RunBothWays(test);
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

TEST_CASE("A PE outside the group is told so") {
  GpuJob job({});
  StreamAllReduce all_reduce{"module/sum", ReductionKind::kSum, {1}, {}, {}};
  const std::string error =
      OnDevice(job.pe(0), [&] { return job.pe(0).transfers->StartAllReduce({1, 1}, all_reduce, job.pe(0).compute); });
  CHECK(error.find("PE 0 is not in its replica group") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::testing
