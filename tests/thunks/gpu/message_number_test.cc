// Numbers of messages that have wrapped round.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/thunks/gpu/one_operation.h"

namespace xla_shmem::testing {
namespace {

using gpu::GroupArguments;
using gpu::PermuteArguments;

constexpr uint32_t kOneTag = 0x11112222, kOtherTag = 0x33334444;
constexpr char kOneName[] = "module/one", kOtherName[] = "module/other";

void CheckWrapRound(GpuJobOptions options) {
  constexpr uint64_t kBefore = (uint64_t{1} << 32) - 21;
  options.first_message = kBefore;
  GpuJob job(options);
  constexpr int kRounds = 40;
  std::vector<std::vector<std::vector<char>>> operands(2), results(2);
  for (int number = 0; number < 2; ++number) {
    for (int round = 0; round < 2 * kRounds; ++round) {
      operands[number].emplace_back(40000, static_cast<char>(2 * round + number));
      results[number].emplace_back(40000, '-');
    }
  }
  for (int number = 0; number < 2; ++number) {
    for (int round = 0; round < kRounds; ++round) {
      const auto buffers = [&](int at) {
        return gpu::Buffers{{operands[number][at].data()}, {results[number][at].data()}, {40000}};
      };
      Run(job.pe(number), Form::kOverlapping,
          PermuteArguments{kOneName, kOneTag, 1 - number, 1 - number, buffers(round)});
      GroupArguments group;
      group.name = kOtherName;
      group.tag = kOtherTag;
      group.op = CollectiveOp::kAllToAll;
      group.group = {0, 1};
      group.buffers = buffers(kRounds + round);
      group.buffers.bytes[0] /= 2;
      Run(job.pe(number), Form::kInLine, group);
    }
  }
  REQUIRE(job.Synchronize());
  for (int number = 0; number < 2; ++number) {
    CHECK(job.pe(number).watchdog->Check().message() == "");
    for (int round = 0; round < kRounds; ++round) {
      CHECK(results[number][round] == operands[1 - number][round]);
      const std::vector<char>& exchanged = results[number][kRounds + round];
      CHECK(exchanged.front() == operands[0][kRounds + round][0]);
      CHECK(exchanged.back() == operands[1][kRounds + round][0]);
    }
  }
}

TEST_CASE("Numbers of messages wrap round at 32 bits") {
  CheckWrapRound({});
  GpuJobOptions split;
  split.permute = GpuPermute::kKernel;
  split.split_bytes = 1 << 20;
  CheckWrapRound(split);
}

TEST_CASE("A late transfer whose numbers have wrapped round still says how many messages have come") {
  GpuJobOptions options;
  options.first_message = (uint64_t{1} << 32) - 2;
  options.deadline = std::chrono::milliseconds(500);
  GpuJob job(options);
  Results memory(2);
  const PermuteArguments first{kOneName, kOneTag, 1, 1, memory.Buffers(0)};
  Run(job.pe(0), Form::kOverlapping, first);
  Run(job.pe(1), Form::kOverlapping, PermuteArguments{kOneName, kOneTag, 0, 0, memory.Buffers(1)});
  REQUIRE(job.Synchronize());
  PermuteArguments second = first;  // of several chunks
  second.buffers = memory.Buffers(0, 8 * kOneOperationBytes);
  Run(job.pe(0), Form::kOverlapping, second);
  REQUIRE(job.pe(0).cuda->Synchronize());
  const std::string error = job.pe(0).watchdog->Check().message();
  CHECK(error.find("PE 1 has put 4294967295 of 42949672") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::testing
