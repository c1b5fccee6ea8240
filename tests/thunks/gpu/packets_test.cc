// Small messages in packets (nvshmem/gpu/kernels/packets.cuh).
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/thunks/gpu/gpu_job.h"
#include "tests/thunks/gpu/group_case.h"
#include "tests/thunks/gpu/one_operation.h"
#include "tests/thunks/gpu/permute_case.h"

namespace xla_shmem::testing {
namespace {

using gpu::GroupArguments;
using gpu::LaneLayout;
using gpu::PermuteArguments;

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
                                 CollectiveOp::kAllToAll, CollectiveOp::kCollectiveBroadcast};
constexpr Form kForms[] = {Form::kOverlapping, Form::kInLine, Form::kGraph};

// Of a message, at most, with the lanes of GpuJob or so much memory.
size_t Limit(int n_pes, size_t lane_bytes = GpuJobOptions().lane_bytes) {
  const Result<LaneLayout> layout = LaneLayout::Create(n_pes, lane_bytes);
  return layout->packet_share() * layout->lanes();
}

std::vector<int> AllOf(int n_pes) {
  std::vector<int> pes;
  for (int pe = 0; pe < n_pes; ++pe) pes.push_back(pe);
  return pes;
}

TEST_CASE("Packets carry every op, for any bytes up to the limit and beyond, among any number of members") {
  for (const int n_pes : {2, 3, 5}) {
    const size_t limit = Limit(n_pes);
    REQUIRE(limit >= 160);
    for (const CollectiveOp op : kOps) {
      for (const size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{17}, limit - 15, limit, limit + 1}) {
        CAPTURE(n_pes);
        CAPTURE(OpName(op));
        CAPTURE(bytes);
        GroupCase test{op, {AllOf(n_pes)}, {ElementType::kU8}, {bytes}};
        test.form = kForms[bytes % 3];
        RunGroupCase(test);
      }
    }
  }
}

TEST_CASE("Packets carry all types, parts at odd addresses and operands that are results") {
  const std::vector<ElementType> types{ElementType::kS8, ElementType::kC128, ElementType::kBf16, ElementType::kF64};
  for (const Form form : kForms) {
    for (const bool in_place : {false, true}) {
      for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll}) {
        if (in_place && op == CollectiveOp::kReduceScatter) continue;
        GroupCase test{op, {{1, 2, 0}}, types, {3, 2, 13, 7}, in_place};
        test.form = form;
        RunGroupCase(test);
      }
    }
    GroupCase arrays{CollectiveOp::kAllToAll, {{1, 0, 2}}, {3, ElementType::kF16}, {77, 77, 77}};
    arrays.one_array_each = true;
    arrays.form = form;
    RunGroupCase(arrays);
    GroupCase groups{CollectiveOp::kAllGather, {{4, 1}, {0, 3, 2}, {5}}, {ElementType::kS32}, {33}};
    groups.form = form;
    RunGroupCase(groups);
  }
}

TEST_CASE("Packets carry permutes between any PEs, also in place") {
  for (const bool in_place : {false, true}) {
    RunPermutesByKernel({{1, 2, 0}, {13}, in_place, false, 20});
    RunPermutesByKernel({{1, 2, -1, 3, -1}, {50, 3}, in_place, false, 20});
    RunPermutesByKernel({{-1, 0, 4, 3, 2}, {1}, in_place, false, 20});
  }
}

// A GPU's kernels of one op, with packets and without.
std::pair<size_t, size_t> LaunchesOf(CollectiveOp op, size_t bytes, const GpuJobOptions& options) {
  const int n_pes = options.n_pes;
  GpuJob job(options);
  std::vector<std::vector<char>> memory(n_pes, std::vector<char>(2 * n_pes * bytes));
  for (int number = 0; number < n_pes; ++number) {
    GroupArguments group;
    group.name = "module/op";
    group.tag = kTag;
    group.op = op;
    group.group = AllOf(n_pes);
    group.types = {ElementType::kU32};
    group.buffers = {{memory[number].data()}, {memory[number].data() + n_pes * bytes}, {bytes}};
    nvshmem_double::BindPe(number);
    Run(job.pe(number), Form::kInLine, group);
  }
  REQUIRE(job.Synchronize());
  const auto launches = [&](const char* kernel) { return job.pe(0).cuda->launches(kernel); };
  return {launches("move_packets") + launches("reduce_packets"),
          launches("move") + launches("reduce") + launches("switch_reduction")};
}

using Launches = std::pair<size_t, size_t>;
constexpr Launches kInPackets{1, 0}, kThroughSlots{0, 1};

TEST_CASE("What goes in packets follows from the bytes, up to the limit of the link") {
  GpuJobOptions nvlink;
  nvlink.lane_bytes = 8 << 20;
  GpuJobOptions pcie = nvlink, none = nvlink, multimem = nvlink;
  pcie.packet_bytes = gpu::kPacketBytesOverPcie;
  none.packet_bytes = 0;
  multimem.multimem = true;
  CHECK(Limit(2, nvlink.lane_bytes) == gpu::kPacketBytesOverNvlink);
  for (const CollectiveOp op : kOps) {
    CAPTURE(OpName(op));
    CHECK(LaunchesOf(op, gpu::kPacketBytesOverNvlink, nvlink) == kInPackets);
    CHECK(LaunchesOf(op, gpu::kPacketBytesOverNvlink + 4, nvlink) == kThroughSlots);
    CHECK(LaunchesOf(op, gpu::kPacketBytesOverPcie, pcie) == kInPackets);
    CHECK(LaunchesOf(op, gpu::kPacketBytesOverPcie + 4, pcie) == kThroughSlots);
    CHECK(LaunchesOf(op, 4, none) == kThroughSlots);
  }
  CHECK(LaunchesOf(CollectiveOp::kAllReduce, 64, multimem) == kThroughSlots);
}

TEST_CASE("Packets take a small part of the lanes' memory, and of shared memory") {
  for (const int n_pes : {2, 8, 9, 16, 72}) {
    CAPTURE(n_pes);
    const Result<LaneLayout> layout = LaneLayout::Create(n_pes, LaneLayout::RecommendedBytes(n_pes));
    REQUIRE(layout.ok());
    const size_t packets = size_t{4} * layout->lanes() * (n_pes - 1) * layout->packet_slot_bytes();
    CHECK(packets <= size_t{4} << 20);
    CHECK(layout->packet_share() % 16 == 0);
    CHECK(layout->packet_share() * (n_pes - 1) <= gpu::kPacketStagingBytes);
    if (n_pes <= 8) CHECK(layout->packet_share() * layout->lanes() == gpu::kPacketBytesOverNvlink);
    if (n_pes == 72) CHECK(layout->packet_share() * layout->lanes() >= 6 << 10);
  }
}

TEST_CASE("A reduction goes in packets only as far as shared memory holds what the peers send") {
  GpuJobOptions options;
  options.n_pes = 9;
  options.lane_bytes = 4 << 20;
  options.most_lanes = 1;  // so its share is large
  constexpr size_t kStaged = gpu::kPacketStagingBytes / 8;
  CHECK(LaunchesOf(CollectiveOp::kAllReduce, kStaged, options) == kInPackets);
  CHECK(LaunchesOf(CollectiveOp::kAllReduce, kStaged + 4, options) == kThroughSlots);
  CHECK(LaunchesOf(CollectiveOp::kAllGather, kStaged + 4, options) == kInPackets);
}

// Every round writes other values, of other sizes: slots of packets hold older packets of every age.
TEST_CASE("Packets of another message are never taken, whatever sizes come in turn") {
  constexpr int kPes = 3, kRounds = 150;
  GpuJobOptions options;
  options.n_pes = kPes;
  options.permute = GpuPermute::kKernel;
  GpuJob job(options);
  std::mt19937 random(11);
  const size_t limit = Limit(kPes);
  std::vector<size_t> sizes;
  std::vector<int> kinds;
  for (int round = 0; round < kRounds; ++round) {
    sizes.push_back(1 + random() % (round % 7 == 0 ? 2 * limit : limit));
    kinds.push_back(static_cast<int>(random() % 4));
  }
  std::vector<std::vector<std::vector<char>>> operands(kPes), results(kPes);
  for (int pe = 0; pe < kPes; ++pe) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<char>& operand = operands[pe].emplace_back(sizes[round]);
      for (size_t i = 0; i < operand.size(); ++i) operand[i] = static_cast<char>(37 * round + 91 * pe + 5 * i);
      results[pe].emplace_back(kPes * sizes[round], '-');
    }
  }
  std::vector<std::thread> hosts;
  for (int pe = 0; pe < kPes; ++pe) {
    hosts.emplace_back([&, pe] {
      nvshmem_double::BindPe(pe);
      for (int round = 0; round < kRounds; ++round) {
        const gpu::Buffers buffers{{operands[pe][round].data()}, {results[pe][round].data()}, {sizes[round]}};
        // Permutes of one direction, and broadcasts, have senders that wait for nobody.
        if (kinds[round] < 2) {
          const int target = pe + 1 < kPes ? pe + 1 : -1;
          const bool up = kinds[round] == 0;
          Run(job.pe(pe), Form::kInLine,
              PermuteArguments{"op", kTag, up ? pe - 1 : target, up ? target : pe - 1, buffers});
          continue;
        }
        GroupArguments group;
        group.name = "op";
        group.tag = kTag;
        group.op = kinds[round] == 2 ? CollectiveOp::kCollectiveBroadcast : CollectiveOp::kAllGather;
        group.group = {round % kPes, (round + 1) % kPes, (round + 2) % kPes};
        group.buffers = buffers;
        Run(job.pe(pe), Form::kInLine, group);
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int pe = 0; pe < kPes; ++pe) {
    for (int round = 0; round < kRounds; ++round) {
      CAPTURE(round);
      CAPTURE(kinds[round]);
      const auto part = [&](size_t index) {
        const auto begin = results[pe][round].begin() + static_cast<ptrdiff_t>(index * sizes[round]);
        return std::vector<char>(begin, begin + static_cast<ptrdiff_t>(sizes[round]));
      };
      if (kinds[round] < 2) {
        const int source = kinds[round] == 0 ? pe - 1 : pe + 1;
        const bool has_source = source >= 0 && source < kPes;
        CHECK(part(0) == (has_source ? operands[source][round] : std::vector<char>(sizes[round], 0)));
      } else if (kinds[round] == 2) {
        CHECK(part(0) == operands[round % kPes][round]);
      } else {
        for (int i = 0; i < kPes; ++i) CHECK(part(i) == operands[(round + i) % kPes][round]);
      }
    }
  }
}

// Slots hold numbers that are awaited soon after the wrap: GpuJob::SetPackets.
TEST_CASE("Numbers of packets wrap round at 32 bits, and none of 2^32 messages ago is taken") {
  for (const uint64_t wraps : {uint64_t{1} << 31, uint64_t{1} << 32}) {
    GpuJobOptions options;
    options.first_message = wraps - 11;
    GpuJob job(options);
    constexpr int kRounds = 40;
    const size_t limit = Limit(2);
    std::vector<std::vector<std::vector<char>>> operands(2), results(2);
    for (int pe = 0; pe < 2; ++pe) {
      for (int round = 0; round < kRounds; ++round) {
        // Slots are not filled until some messages behind the wrap, so that old numbers are left in them.
        const size_t bytes = round < 20 ? 16 : limit;
        operands[pe].emplace_back(bytes, static_cast<char>(2 * round + pe));
        results[pe].emplace_back(2 * bytes, '-');
      }
    }
    for (int round = 0; round < kRounds; ++round) {
      for (int pe = 0; pe < 2; ++pe) {
        GroupArguments group;
        group.name = "module/op";
        group.tag = kTag;
        group.op = CollectiveOp::kAllGather;
        group.group = {0, 1};
        group.buffers = {{operands[pe][round].data()}, {results[pe][round].data()}, {operands[pe][round].size()}};
        nvshmem_double::BindPe(pe);
        Run(job.pe(pe), Form::kInLine, group);
      }
    }
    REQUIRE(job.Synchronize());
    for (int pe = 0; pe < 2; ++pe) {
      CHECK(job.pe(pe).watchdog->Check().message() == "");
      CHECK(job.pe(pe).cuda->launches("move_packets") == kRounds);
      for (int round = 0; round < kRounds; ++round) {
        CAPTURE(round);
        std::vector<char> expected = operands[0][round];
        expected.insert(expected.end(), operands[1][round].begin(), operands[1][round].end());
        CHECK(results[pe][round] == expected);
      }
    }
  }
}

// Each PE starts a collective whose messages take another way than the other's.
TEST_CASE("A collective in packets and one through slots take no message of each other, and say so at once") {
  for (const Form form : kForms) {
    CAPTURE(static_cast<int>(form));
    GpuJobOptions options;
    options.deadline = std::chrono::seconds(60);
    GpuJob job(options);
    Results memory(2);
    for (int pe = 0; pe < 2; ++pe) job.pe(pe).cuda->Pause(true);
    for (int pe = 0; pe < 2; ++pe) {
      GroupArguments group;
      group.name = pe == 0 ? "module/small" : "module/large";
      group.tag = pe == 0 ? 0x1111 : 0x2222;
      group.op = CollectiveOp::kAllGather;
      group.group = {0, 1};
      group.buffers = memory.Buffers(pe, pe == 0 ? 64 : 4 * kOneOperationBytes);
      nvshmem_double::BindPe(pe);
      Run(job.pe(pe), form, group);
    }
    const auto begun = std::chrono::steady_clock::now();
    for (int pe = 0; pe < 2; ++pe) job.pe(pe).cuda->Pause(false);
    for (int pe = 0; pe < 2; ++pe) REQUIRE(job.pe(pe).cuda->Synchronize(40));
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(30));
    for (int pe = 0; pe < 2; ++pe) {
      const std::string error = job.pe(pe).watchdog->Check().message();
      CHECK(error.find("PE " + std::to_string(1 - pe) + " sent a message of another collective, module/" +
                       (pe == 0 ? "large" : "small")) != std::string::npos);
    }
    CHECK(memory.Untouched(0));
  }
}

}  // namespace
}  // namespace xla_shmem::testing
