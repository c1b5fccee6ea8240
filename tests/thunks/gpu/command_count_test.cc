// How many stream commands a collective takes on a PE: in line or in a CUDA graph, and as an overlapping pair.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/thunks/gpu/gpu_job.h"
#include "xla_patch/thunks/gpu/arena_layout.h"
#include "xla_patch/thunks/gpu/collective_permute.h"

namespace xla_shmem::testing {
namespace {

// Commands of a permute round a ring on PE 0, in line and as an overlapping pair, the least and the most of several in
// a row. Nothing runs, so the buffers need no memory.
struct Commands {
  size_t in_line;
  size_t least_of_pair;
  size_t most_of_pair;
};

struct Role {
  int source;
  int target;
};

Commands CommandsOfPermute(int n_pes, size_t bytes, GpuPermute permute_by = GpuPermute::kAuto,
                           gpu::Signals signals = gpu::Signals::kWrites, std::optional<Role> role = std::nullopt) {
  char* const memory = reinterpret_cast<char*>(uintptr_t{1} << 40);
  GpuJobOptions options;
  options.permute = permute_by;
  options.n_pes = n_pes;
  options.signals = signals;
  gpu::Buffers buffers{{memory}, {memory + bytes}, {bytes}};
  if (!gpu::IsByKernel(permute_by, buffers)) options.arena_bytes = gpu::PairLayout::RecommendedBytes(n_pes);
  options.split_bytes = gpu::SplitLayout::RecommendedBytes(n_pes);
  GpuJob job(options);
  GpuJob::Pe& pe = job.pe(0);
  pe.cuda->Pause(true);
  const auto [source, target] = role.value_or(Role{n_pes - 1, 1});
  const gpu::PermuteArguments permute{"p", kTag, source, target, buffers};
  Commands commands{};
  OnDevice(pe, [&] {
    const size_t before = pe.cuda->commands();
    CHECK(pe.transfers->RunPermute(permute, pe.compute).message() == "");
    commands.in_line = pe.cuda->commands() - before;
    commands.least_of_pair = SIZE_MAX;
    for (int run = 0; run < 12; ++run) {
      const size_t start = pe.cuda->commands();
      CHECK(pe.transfers->StartPermute({1, run}, permute, pe.compute).message() == "");
      CHECK(pe.transfers->Finish({1, run}, "p", pe.compute).message() == "");
      const size_t pair = pe.cuda->commands() - start;
      commands.least_of_pair = std::min(commands.least_of_pair, pair);
      commands.most_of_pair = std::max(commands.most_of_pair, pair);
    }
    return 0;
  });
  return commands;
}

void CheckIsKernel(const Commands& commands, size_t of_pair) {
  CHECK(commands.in_line == 1);
  CHECK(commands.least_of_pair == of_pair);
  CHECK(commands.most_of_pair == of_pair);
}

TEST_CASE("A permute of at most 1.35 MB is one command in line and two in a pair, and a larger kernel five") {
  for (const int n_pes : {2, 4, 8}) {
    CAPTURE(n_pes);
    for (const size_t bytes : {size_t{4} << 10, size_t{1} << 20, gpu::SplitLayout::kMaxBytes / 256 * 256}) {
      CheckIsKernel(CommandsOfPermute(n_pes, bytes), 2);
    }
    CheckIsKernel(CommandsOfPermute(n_pes, gpu::SplitLayout::kMaxBytes + 1), 5);
  }
  CheckIsKernel(CommandsOfPermute(2, size_t{64} << 20, GpuPermute::kKernel), 5);
}

TEST_CASE("A start without a message to send, and a done without results to write, are no command") {
  const auto commands = [](Role role) {
    return CommandsOfPermute(2, 4 << 10, GpuPermute::kAuto, gpu::Signals::kWrites, role);
  };
  CheckIsKernel(commands({1, -1}), 1);   // receives
  CheckIsKernel(commands({-1, 1}), 2);   // sends, and its results become zeros
  CheckIsKernel(commands({0, 0}), 1);    // copies
  CheckIsKernel(commands({-1, -1}), 1);  // zeros
}

TEST_CASE(
    "By copies a pair of one chunk is twelve commands, and one of many chunks five for each; one call is a kernel") {
  for (const int n_pes : {2, 4, 8}) {
    CAPTURE(n_pes);
    for (const size_t bytes : {size_t{4} << 10, size_t{1} << 20}) {
      const Commands commands = CommandsOfPermute(n_pes, bytes, GpuPermute::kCopies);
      CHECK(commands.in_line == 1);
      CHECK(commands.least_of_pair == 11);
      CHECK(commands.most_of_pair == 12);
    }
    const Commands commands = CommandsOfPermute(n_pes, size_t{64} << 20);  // 16 chunks
    CHECK(commands.in_line == 1);
    CHECK(commands.least_of_pair == 78);
    CHECK(commands.most_of_pair == 81);
  }
}

TEST_CASE("Copied signals take one command more each, credits two") {
  for (const int n_pes : {2, 4, 8}) {
    CAPTURE(n_pes);
    const Commands one = CommandsOfPermute(n_pes, 4 << 10, GpuPermute::kCopies, gpu::Signals::kCopies);
    CHECK(one.least_of_pair == 12);
    CHECK(one.most_of_pair == 14);
    const Commands many = CommandsOfPermute(n_pes, size_t{64} << 20, GpuPermute::kAuto, gpu::Signals::kCopies);
    CHECK(many.least_of_pair == 107);
    CHECK(many.most_of_pair == 111);
  }
}

}  // namespace
}  // namespace xla_shmem::testing
