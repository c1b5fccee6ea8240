#include "tests/thunks/gpu/all_reduce_case.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <thread>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/thunks/gpu/gpu_job.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::testing {
namespace {

using gpu::Puts;

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
        nvshmem_double::BindPe(pe);
        GpuJob::Pe& mine = job.pe(pe);
        const gpu::ScopedContext context(*mine.device);
        gpu::AllReduceArguments all_reduce{"module/sum", test.kind, group, test.types, {}};
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
            CHECK(mine.transfers->StartAllReduce({7, round}, all_reduce, mine.compute).message() == "");
            CHECK(mine.transfers->Finish({7, round}, "module/sum", mine.compute).message() == "");
          } else {
            CHECK(mine.transfers->ReplayAllReduce(all_reduce, mine.compute).message() == "");
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

}  // namespace

void RunBothWays(const AllReduceCase& test) {
  for (const gpu::Puts puts : {Puts::kDriver, Puts::kNvshmem}) RunAllReduces(test, puts);
}

}  // namespace xla_shmem::testing
