// Permutes by the kernel of the lanes.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/thunks/gpu/one_operation.h"
#include "tests/thunks/gpu/permute_case.h"
#include "xla_patch/thunks/gpu/collective_permute.h"
#include "xla_patch/thunks/gpu/launch_form.h"

namespace xla_shmem::testing {
namespace {

using gpu::PermuteArguments;

constexpr char kName[] = "module/op";

TEST_CASE("A kernel moves a permute of any size, from one element to more than all slots hold") {
  RunPermutesByKernel({{1, 2, 0}, {1}});
  RunPermutesByKernel({{1, 2, 0}, {1000}, false, false, 40});
  RunPermutesByKernel({{1, 0}, {100000}, false, false, 3});
  RunPermutesByKernel({{1, 2, 3, 0}, {1, 40000, 0, 17}});
}

TEST_CASE("In a kernel PEs send, receive, do both, send to themselves or do nothing") {
  for (const bool in_place : {false, true}) {
    CAPTURE(in_place);
    RunPermutesByKernel({{1, 2, -1, 3, -1}, {5000}, in_place});
    RunPermutesByKernel({{-1, 0, 4, 3, 2}, {100000, 3}, in_place, false, 2});
  }
}

TEST_CASE("A kernel overwrites no operand that it has not sent") {
  RunPermutesByKernel({{1, 2, 0}, {70000, 3}, /*in_place=*/true});
  RunPermutesByKernel({{1, 0}, {100000}, /*in_place=*/true, false, 3});
}

TEST_CASE("After a kernel a PE without a source has its results if it is told to keep them") {
  RunPermutesByKernel({{1, 2, -1, -1, 4}, {70000, 5}, false, false, 2, true, /*keeps_results=*/true});
}

TEST_CASE("A permute of more buffers than a launch takes becomes several launches") {
  PermuteCase test{{1, -1, 2}, {}};
  for (size_t i = 0; i < gpu::kMaxParts + 5; ++i) test.elements.push_back(i % 7);
  RunPermutesByKernel(test);
}

TEST_CASE("A kernel writes zeros to results at any address, and no byte beside them") {
  GpuJobOptions options;
  options.permute = GpuPermute::kKernel;
  GpuJob job(options);
  GpuJob::Pe& pe = job.pe(0);
  for (const size_t bytes : {size_t{1}, size_t{33}, size_t{5000}}) {
    for (const size_t offset : {size_t{16}, size_t{17}, size_t{20}}) {
      alignas(16) static char memory[6000];
      std::fill(std::begin(memory), std::end(memory), 'x');
      const std::vector<char> operand(bytes, 'y');
      const PermuteArguments permute{kName, kTag, -1, -1, {{operand.data()}, {memory + offset}, {bytes}}};
      CHECK(OnDevice(pe, [&] { return pe.transfers->RunPermute(permute, pe.compute); }).message() == "");
      REQUIRE(job.Synchronize());
      CHECK(std::count(std::begin(memory), std::end(memory), 0) == static_cast<ptrdiff_t>(bytes));
      CHECK(std::count(memory + offset, memory + offset + bytes, 0) == static_cast<ptrdiff_t>(bytes));
    }
  }
}

TEST_CASE("A permute without bytes launches nothing") {
  GpuJobOptions options;
  GpuJob job((options.permute = GpuPermute::kKernel, options));
  GpuJob::Pe& pe = job.pe(0);
  char memory[2] = {};
  const PermuteArguments permute{kName, kTag, 1, 1, {{memory}, {memory + 1}, {0}}};
  const size_t before = pe.cuda->commands();
  CHECK(OnDevice(pe, [&] { return pe.transfers->RunPermute(permute, pe.compute); }).message() == "");
  CHECK(pe.cuda->commands() == before);
}

TEST_CASE("The kernel carries permutes up to the bytes of a gap, unless it is told otherwise") {
  const auto is_by_kernel = [](GpuPermute permute, std::vector<size_t> bytes) {
    gpu::Buffers buffers;
    buffers.bytes = std::move(bytes);
    return gpu::IsByKernel(permute, buffers);
  };
  CHECK(is_by_kernel(GpuPermute::kAuto, {}));
  CHECK(is_by_kernel(GpuPermute::kAuto, {gpu::kBytesOfGap}));
  CHECK_FALSE(is_by_kernel(GpuPermute::kAuto, {gpu::kBytesOfGap + 1}));
  CHECK(is_by_kernel(GpuPermute::kAuto, {gpu::kBytesOfGap - 10, 10}));
  CHECK_FALSE(is_by_kernel(GpuPermute::kAuto, {gpu::kBytesOfGap - 10, 11}));
  CHECK(is_by_kernel(GpuPermute::kKernel, {size_t{1} << 40}));
  CHECK_FALSE(is_by_kernel(GpuPermute::kCopies, {1}));
}

TEST_CASE("Large permutes whose sources change go through slots that all senders share, one kernel behind the other") {
  constexpr int kPes = 5, kPermutes = 12;
  for (const bool in_line : {true, false}) {
    for (unsigned seed = 1; seed <= 6; ++seed) {
      CAPTURE(in_line);
      CAPTURE(seed);
      std::minstd_rand random(seed);
      GpuJobOptions options;
      options.n_pes = kPes;
      options.permute = GpuPermute::kKernel;
      GpuJob job(options);
      const gpu::LaneLayout& layout = job.pe(0).lanes->layout();
      REQUIRE(layout.shared_slot_bytes() > layout.slot_bytes());
      std::vector<std::vector<std::vector<int32_t>>> operands(kPes), results(kPes);
      std::vector<std::vector<int>> targets(kPermutes, std::vector<int>(kPes));
      size_t shared = 0;
      for (int permute = 0; permute < kPermutes; ++permute) {
        const size_t elements = 1 + random() % 60000;
        std::iota(targets[permute].begin(), targets[permute].end(), 0);
        std::shuffle(targets[permute].begin(), targets[permute].end(), random);
        for (int& target : targets[permute]) target = random() % 5 == 0 ? -1 : target;
        for (int pe = 0; pe < kPes; ++pe) {
          operands[pe].push_back(Pattern(elements, pe, permute));
          results[pe].emplace_back(elements, -3);
        }
        shared += gpu::FormOf(layout, gpu::kMove, false, gpu::Padded(4 * elements), 3, 1).shares_slots;
      }
      CHECK(shared > kPermutes / 2);
      std::vector<std::thread> hosts;
      for (int pe = 0; pe < kPes; ++pe) {
        hosts.emplace_back([&, pe] {
          for (int permute = 0; permute < kPermutes; ++permute) {
            const std::vector<int>& target_of = targets[permute];
            const auto source = std::find(target_of.begin(), target_of.end(), pe);
            Run(job.pe(pe), in_line ? Form::kInLine : Form::kOverlapping,
                PermuteArguments{kName,
                                 kTag + static_cast<uint32_t>(permute),
                                 source == target_of.end() ? -1 : static_cast<int>(source - target_of.begin()),
                                 target_of[pe],
                                 {{reinterpret_cast<char*>(operands[pe][permute].data())},
                                  {reinterpret_cast<char*>(results[pe][permute].data())},
                                  {4 * operands[pe][permute].size()}}});
          }
        });
      }
      for (std::thread& host : hosts) host.join();
      REQUIRE(job.Synchronize());
      for (int permute = 0; permute < kPermutes; ++permute) {
        for (int pe = 0; pe < kPes; ++pe) {
          const auto source = std::find(targets[permute].begin(), targets[permute].end(), pe);
          const std::vector<int32_t> expected = source == targets[permute].end()
                                                    ? std::vector<int32_t>(results[pe][permute].size(), 0)
                                                    : operands[source - targets[permute].begin()][permute];
          CHECK(results[pe][permute] == expected);
        }
      }
    }
  }
}

TEST_CASE("Slots are shared only where they are larger than those of a pair, and a message has many chunks") {
  const auto shares = [](int n_pes, size_t bytes, gpu::CollectiveShape shape, size_t peers) {
    const Result<gpu::LaneLayout> layout = gpu::LaneLayout::Create(n_pes, gpu::LaneLayout::RecommendedBytes(n_pes));
    return gpu::FormOf(*layout, shape, false, bytes, peers + 1, peers).shares_slots;
  };
  constexpr size_t kLarge = size_t{64} << 20;
  for (const int n_pes : {2, 5}) CHECK_FALSE(shares(n_pes, kLarge, gpu::kMove, 1));  // 64 KiB each
  for (const int n_pes : {8, 72}) {
    CHECK(shares(n_pes, kLarge, gpu::kMove, 1));
    CHECK_FALSE(shares(n_pes, kLarge, gpu::kMove, 2));
    CHECK_FALSE(shares(n_pes, kLarge, gpu::kReduce, 1));
  }
  CHECK_FALSE(shares(72, 32 * 4 * (8 << 10), gpu::kMove, 1));
  CHECK(shares(72, 32 * 4 * (8 << 10) + 32 * 16, gpu::kMove, 1));
}

// PE 1 of three in a ring never comes.
TEST_CASE("A peer that never comes ends the kernel of a permute with an error that names this peer alone") {
  // Of one chunk, and of several: the sender waits until the slot of the chunk before is empty.
  for (const size_t bytes : {size_t{1000}, size_t{400000}}) {
    for (const bool in_line : {false, true}) {
      CAPTURE(bytes);
      CAPTURE(in_line);
      GpuJobOptions options;
      options.n_pes = 3;
      options.deadline = std::chrono::milliseconds(1500);
      options.permute = GpuPermute::kKernel;
      GpuJob job(options);
      std::vector<std::vector<char>> operands(3, std::vector<char>(bytes, 'a')), results(3, std::vector<char>(bytes));
      for (const int number : {0, 2}) {
        GpuJob::Pe& pe = job.pe(number);
        const PermuteArguments permute{kName,
                                       kTag,
                                       (number + 2) % 3,
                                       (number + 1) % 3,
                                       {{operands[number].data()}, {results[number].data()}, {bytes}}};
        OnDevice(pe, [&] {
          if (in_line) {
            CHECK(pe.transfers->RunPermute(permute, pe.compute).message() == "");
          } else {
            CHECK(pe.transfers->StartPermute({1, 1}, permute, pe.compute).message() == "");
            CHECK(pe.transfers->Finish({1, 1}, kName, pe.compute).message() == "");
          }
          return 0;
        });
      }
      for (const int number : {0, 2}) REQUIRE(job.pe(number).cuda->Synchronize());
      const auto late = [](int number) {
        return "module/op on PE " + std::to_string(number) +
               " has not finished; it waits for PE 1; gave up after the deadline (XLA_SHMEM_DEADLINE)";
      };
      CHECK(job.pe(2).watchdog->Check().message() == late(2));
      CHECK(std::count(results[2].begin(), results[2].end(), 'a') == 0);
      CHECK(job.pe(0).watchdog->Check().message() == (bytes > 1000 ? late(0) : ""));
      if (bytes == 1000) CHECK(results[0] == operands[2]);
    }
  }
}

}  // namespace
}  // namespace xla_shmem::testing
