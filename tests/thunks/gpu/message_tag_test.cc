#include "xla_patch/thunks/gpu/message_tag.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/doubles/nvshmem_host_api.h"
#include "tests/thunks/gpu/one_operation.h"

namespace xla_shmem::testing {
namespace {

using gpu::GroupArguments;
using gpu::PermuteArguments;
using gpu::Puts;
using gpu::Signals;

constexpr uint32_t kOneTag = 0x11112222, kOtherTag = 0x33334444;
constexpr char kOneName[] = "module/one", kOtherName[] = "module/other";
constexpr Form kForms[] = {Form::kOverlapping, Form::kInLine, Form::kGraph};

// Far more than the second look of the watchdog takes.
constexpr std::chrono::seconds kLongDeadline{60}, kSoon{30};

// PE `pe` says that `peer` is at the other collective.
void CheckNamed(GpuJob& job, int pe, int peer) {
  const bool is_one = pe == 0;
  CHECK(job.pe(pe).watchdog->Check().message() ==
        std::string(is_one ? kOneName : kOtherName) + " on PE " + std::to_string(pe) + ": PE " + std::to_string(peer) +
            " sent a message of another collective, " + (is_one ? kOtherName : kOneName) +
            ": the processes run different programs, or start them in another order");
  CHECK(job.pe(pe).cuda->trapped());
}

// No stream runs before all hosts have enqueued, so no host sees the failure in between.
void Pause(GpuJob& job, bool paused) {
  for (int pe = 0; pe < job.n_pes(); ++pe) job.pe(pe).cuda->Pause(paused);
}

GpuJobOptions WithLongDeadline() {
  GpuJobOptions options;
  options.deadline = kLongDeadline;
  return options;
}

// Two PEs run `start(pe, is_one)`, which gives each of them another collective.
template <typename Start>
void CheckBothSayIt(const GpuJobOptions& options, Start start) {
  GpuJob job(options);
  Results memory(2);
  Pause(job, true);
  for (int pe = 0; pe < 2; ++pe) {
    nvshmem_double::BindPe(pe);
    start(job.pe(pe), memory, pe);
  }
  const auto begun = std::chrono::steady_clock::now();
  Pause(job, false);
  for (int pe = 0; pe < 2; ++pe) REQUIRE(job.pe(pe).cuda->Synchronize(40));
  CHECK(std::chrono::steady_clock::now() - begun < kSoon);
  for (int pe = 0; pe < 2; ++pe) {
    CheckNamed(job, pe, 1 - pe);
    CHECK(memory.Untouched(pe));
  }
}

TEST_CASE("A permute takes no message of another one, and says so before the deadline") {
  for (const auto& [puts, signals, permute_by] : {std::tuple(Puts::kDriver, Signals::kWrites, GpuPermute::kCopies),
                                                  {Puts::kDriver, Signals::kCopies, GpuPermute::kCopies},
                                                  {Puts::kNvshmem, Signals::kWrites, GpuPermute::kCopies},
                                                  {Puts::kDriver, Signals::kWrites, GpuPermute::kKernel}}) {
    for (const Form form : kForms) {
      CAPTURE(static_cast<int>(form));
      GpuJobOptions options = WithLongDeadline();
      options.puts = puts;
      options.signals = signals;
      options.permute = permute_by;
      CheckBothSayIt(options, [form](GpuJob::Pe& pe, Results& memory, int number) {
        const PermuteArguments permute{number == 0 ? kOneName : kOtherName, number == 0 ? kOneTag : kOtherTag,
                                       1 - number, 1 - number, memory.Buffers(number)};
        Run(pe, form, permute);
      });
    }
  }
}

TEST_CASE("A permute by the kernel and a collective of a group take no message of each other") {
  for (const Form form : kForms) {
    CAPTURE(static_cast<int>(form));
    GpuJobOptions options = WithLongDeadline();
    options.permute = GpuPermute::kKernel;
    CheckBothSayIt(options, [form](GpuJob::Pe& pe, Results& memory, int number) {
      if (number == 0) {
        Run(pe, form, PermuteArguments{kOneName, kOneTag, 1, 1, memory.Buffers(0)});
        return;
      }
      GroupArguments group;
      group.name = kOtherName;
      group.tag = kOtherTag;
      group.group = {0, 1};
      group.types = {ElementType::kF32};
      group.buffers = memory.Buffers(1);
      Run(pe, form, group);
    });
  }
}

void CheckOtherOrder(GpuPermute permute_by) {
  for (const Form form : kForms) {
    CAPTURE(static_cast<int>(form));
    GpuJobOptions options = WithLongDeadline();
    options.permute = permute_by;
    CheckBothSayIt(options, [form](GpuJob::Pe& pe, Results& memory, int number) {
      PermuteArguments one{kOneName, kOneTag, 1 - number, 1 - number, memory.Buffers(number)};
      PermuteArguments other = one;
      other.name = kOtherName;
      other.tag = kOtherTag;
      if (number == 1) std::swap(one, other);
      if (form != Form::kGraph) {
        Run(pe, form, one);
        Run(pe, form, other);
        return;
      }
      OnDevice(pe, [&] {
        pe.cuda->BeginCapture(pe.compute);
        CHECK(pe.transfers->RunPermute(one, pe.compute).message() == "");
        CHECK(pe.transfers->RunPermute(other, pe.compute).message() == "");
        pe.cuda->EndCapture(pe.compute);
        pe.cuda->LaunchGraph(pe.compute);
      });
    });
  }
}

TEST_CASE("Permutes that two PEs start in another order do not exchange data") {
  CheckOtherOrder(GpuPermute::kCopies);
  CheckOtherOrder(GpuPermute::kKernel);
}

TEST_CASE("A collective of a group takes no message of another one, in any form") {
  const auto check = [](CollectiveOp op, Form form, size_t bytes, bool multimem) {
    CAPTURE(OpName(op));
    CAPTURE(static_cast<int>(form));
    GpuJobOptions options = WithLongDeadline();
    options.multimem = multimem;
    CheckBothSayIt(options, [&](GpuJob::Pe& pe, Results& memory, int number) {
      GroupArguments group;
      group.name = number == 0 ? kOneName : kOtherName;
      group.tag = number == 0 ? kOneTag : kOtherTag;
      group.op = op;
      group.group = {0, 1};
      // The second PE has two chunks or more in some lanes: other numbers of messages do not matter.
      group.types = {ElementType::kF32};
      group.buffers = memory.Buffers(number, bytes);
      Run(pe, form, group);
    });
  };
  for (const Form form : kForms) {
    for (const CollectiveOp op :
         {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll}) {
      check(op, form, kOneOperationBytes, /*multimem=*/false);
    }
    check(CollectiveOp::kAllReduce, form, kOneOperationBytes, /*multimem=*/true);
    check(CollectiveOp::kReduceScatter, form, kOneOperationBytes, /*multimem=*/true);
  }
}

TEST_CASE("A two-shot all-reduce takes no message of another one") {
  GpuJobOptions options = WithLongDeadline();
  options.n_pes = 4;
  GpuJob job(options);
  constexpr size_t kLarge = size_t{4} << 20;
  std::vector<std::vector<char>> operands(4, std::vector<char>(kLarge, 1)), results(4, std::vector<char>(kLarge, '-'));
  Pause(job, true);
  for (int number = 0; number < 4; ++number) {
    GroupArguments group;
    group.name = number == 0 ? kOneName : kOtherName;
    group.tag = number == 0 ? kOneTag : kOtherTag;
    group.group = {0, 1, 2, 3};
    group.types = {ElementType::kF32};
    group.buffers = {{operands[number].data()}, {results[number].data()}, {kLarge}};
    Run(job.pe(number), Form::kOverlapping, group);
  }
  Pause(job, false);
  for (int pe = 0; pe < 4; ++pe) REQUIRE(job.pe(pe).cuda->Synchronize(40));
  for (int pe = 1; pe < 4; ++pe) CheckNamed(job, pe, 0);
  const std::string first = job.pe(0).watchdog->Check().message();
  CHECK(first.find("sent a message of another collective, module/other") != std::string::npos);
  for (int pe = 0; pe < 4; ++pe) CHECK(results[pe] == std::vector<char>(kLarge, '-'));
}

TEST_CASE("A ragged all-to-all takes no message of another one") {
  std::vector<uint64_t> zeros(2, 0), fives(2, 5), own{0, 5};
  for (const Form form : kForms) {
    CheckBothSayIt(WithLongDeadline(), [&](GpuJob::Pe& pe, Results& memory, int number) {
      GroupArguments group;
      group.name = number == 0 ? kOneName : kOtherName;
      group.tag = number == 0 ? kOneTag : kOtherTag;
      group.op = CollectiveOp::kRaggedAllToAll;
      group.group = {0, 1};
      // In place: the result begins as it is.
      group.buffers = {{memory.results[number].data()}, {memory.results[number].data()}, {40}};
      group.ragged = {
          memory.operands[number].data(), 4, 10, 10, 1, zeros.data(), fives.data(), own.data() + 0, fives.data()};
      Run(pe, form, group);
    });
  }
}

TEST_CASE("The last message of a broadcast's receiver is looked at by the next collective") {
  GpuJob job(WithLongDeadline());
  Results memory(2);
  Pause(job, true);
  for (int number = 0; number < 2; ++number) {
    GroupArguments group;
    group.name = kOneName;
    group.tag = kOneTag;
    group.op = CollectiveOp::kCollectiveBroadcast;
    group.group = {0, 1};
    group.buffers = memory.Buffers(number, 100);
    // PE 1, which receives, is at another broadcast; PE 0 has nothing to wait for.
    if (number == 1) group.name = kOtherName;
    if (number == 1) group.tag = kOtherTag;
    Run(job.pe(number), Form::kInLine, group);
    if (number == 0) Run(job.pe(number), Form::kInLine, group);
  }
  Pause(job, false);
  for (int pe = 0; pe < 2; ++pe) REQUIRE(job.pe(pe).cuda->Synchronize(40));
  for (int pe = 0; pe < 2; ++pe) CheckNamed(job, pe, 1 - pe);
  CHECK(memory.Untouched(1));
}

TEST_CASE("Broadcasts that begin at each PE in turns do not run into each other") {
  constexpr int kPes = 3, kRounds = 60;
  GpuJobOptions options;
  options.n_pes = kPes;
  options.lane_bytes = 24 << 10;  // several messages for each lane
  GpuJob job(options);
  std::vector<std::vector<std::vector<char>>> operands(kPes), results(kPes);
  for (int number = 0; number < kPes; ++number) {
    for (int round = 0; round < kRounds; ++round) {
      operands[number].emplace_back(kOneOperationBytes, static_cast<char>(round * kPes + number));
      results[number].emplace_back(kOneOperationBytes, '-');
    }
  }
  std::vector<std::thread> hosts;
  for (int number = 0; number < kPes; ++number) {
    hosts.emplace_back([&, number] {
      std::mt19937 random(number);
      GpuJob::Pe& pe = job.pe(number);
      for (int round = 0; round < kRounds; ++round) {
        GroupArguments group;
        group.name = kOneName;
        group.tag = kTag + round;
        group.op = CollectiveOp::kCollectiveBroadcast;
        for (int member = 0; member < kPes; ++member) group.group.push_back((round + member) % kPes);
        group.buffers = {{operands[number][round].data()}, {results[number][round].data()}, {kOneOperationBytes}};
        if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 5));
        Run(pe, Form::kInLine, group);
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  REQUIRE(job.Synchronize());
  for (int number = 0; number < kPes; ++number) {
    CHECK(job.pe(number).watchdog->Check().message() == "");
    for (int round = 0; round < kRounds; ++round) CHECK(results[number][round] == operands[round % kPes][round]);
  }
}

TEST_CASE("The text names a collective that this process has loaded, and gives the tag of another") {
  gpu::RememberTag(0x0a0b0c0d, "jit_step/all-reduce");
  const std::string end = ": the processes run different programs, or start them in another order";
  CHECK(gpu::DescribeOtherCollective("jit_f/permute", 2, 5, 0x0a0b0c0d) ==
        "jit_f/permute on PE 2: PE 5 sent a message of another collective, jit_step/all-reduce" + end);
  CHECK(gpu::DescribeOtherCollective("jit_step/all-reduce", 2, 5, 0x0a0b0c0d) ==
        "jit_step/all-reduce on PE 2: PE 5 sent a message of another collective, jit_step/all-reduce of another "
        "program" +
            end);
  CHECK(gpu::DescribeOtherCollective("jit_f/permute", 2, 5, 0x0a0b0c0e) ==
        "jit_f/permute on PE 2: PE 5 sent a message of a collective that this process has not loaded (tag 0x0a0b0c0e)" +
            end);
  CHECK(gpu::DescribeOtherCollective(uint32_t{0x0a0b0c0f}, 2, 5, 0x0a0b0c0d).find("tag 0x0a0b0c0f on PE 2: PE 5") !=
        std::string::npos);
}

TEST_CASE("A tag is never 0, and a collective without one is refused") {
  CHECK(gpu::TagOfOperation(0) != 0);
  CHECK(gpu::TagOfOperation((uint64_t{7} << 32) | 7) != 0);
  CHECK(gpu::TagOfOperation(1) != gpu::TagOfOperation(uint64_t{2} << 32));
  GpuJob job({});
  GpuJob::Pe& pe = job.pe(0);
  const Status error = OnDevice(pe, [&] { return pe.transfers->RunGroup({}, pe.compute); });
  CHECK(error.message().find("it has no tag") != std::string::npos);
}

}  // namespace
}  // namespace xla_shmem::testing
