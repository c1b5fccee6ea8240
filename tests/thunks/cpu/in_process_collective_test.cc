// Collectives whose members are all PEs of one process, without messages.
#include "xla_patch/thunks/cpu/in_process_collective.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/shm/gate_operation.h"
#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/traffic.h"
#include "xla_patch/shm/futex.h"
#include "xla_patch/thunks/cpu/collectives.h"

namespace xla_shmem::testing {
namespace {

// Around the ends of chunks.
constexpr size_t kSizes[] = {0, 1, 64, 1000, 32767, 32768, 32769, 262144, 262145, 1 << 20};
constexpr Placement kPlacements[] = {Placement::kApart, Placement::kInPlace, Placement::kShifted, Placement::kRotated};

JobOptions InProcess(int n_pes) {
  JobOptions options;
  options.n_pes = n_pes;
  options.in_process = true;
  return options;
}

MessageKey NextKey() {
  static uint64_t operation = 0;
  return {++operation, 1};
}

std::string Letters(const std::vector<char>& memory) { return {memory.begin(), memory.end()}; }

void RunAll(const InProcessPlan& plan) {
  InProcessPlan::Scratch scratch;
  for (size_t chunk = plan.chunks(); chunk-- > 0;) plan.Run(chunk, chunk % 2 == 0, &scratch);
}

TEST_CASE("Moves that overwrite each other's sources read first") {
  std::vector<char> memory = {'a', 'b', 'c', 'd'};
  char* const m = memory.data();
  InProcessPlan plan;
  SUBCASE("a cycle") {
    plan.AddMoves({{m, m + 1}, {m + 1, m + 2}, {m + 2, m}}, 1);
    RunAll(plan);
    CHECK(Letters(memory) == "cabd");
  }
  SUBCASE("a chain that begins with zeros") {
    plan.AddMoves({{m + 1, m + 2}, {m, m + 1}, {nullptr, m}}, 1);
    RunAll(plan);
    CHECK(Letters(memory) == std::string("\0abd", 4));
  }
  SUBCASE("one to itself") {
    plan.AddMoves({{m, m}, {m + 1, m + 3}}, 1);
    RunAll(plan);
    CHECK(Letters(memory) == "abcb");
    CHECK(plan.written() == 1);
  }
}

TEST_CASE("Small steps are one chunk, large ones several") {
  std::vector<char> from(1 << 20, 'f'), to(1 << 20, 't');
  InProcessPlan plan;
  for (size_t i = 0; i < 40; ++i) plan.AddMove(&from[i * 1000], &to[i * 1000], 1000);
  CHECK(plan.chunks() == 2);  // 32,000 and 8,000 bytes
  plan.AddMoves({{&from[40'000], &to[40'000]}, {&from[40'000], &to[600'000]}}, 300'000);
  CHECK(plan.chunks() == 5);  // of 128 KiB, each to two places
  plan.AddMove(&from[900'000], &to[900'000], 10);
  CHECK(plan.chunks() == 6);
  RunAll(plan);
  CHECK(plan.written() == 640'010);
  CHECK(std::count(to.begin(), to.end(), 'f') == 640'010);
}

TEST_CASE("A plan without bytes has no chunks") {
  char byte = 0;
  InProcessPlan plan;
  plan.AddMoves({{&byte, &byte}}, 1);
  plan.AddMoves({}, 1);
  plan.AddMove(&byte, &byte, 1);
  plan.AddMove(nullptr, &byte, 0);
  plan.AddReduction(ElementType::kU8, ReductionKind::kSum, {&byte}, {&byte}, 0);
  CHECK(plan.chunks() == 0);
}

TEST_CASE("A ring and an open chain shift every size in every placement") {
  for (const int n : {2, 5}) {
    Job job(InProcess(n));
    std::vector<int> ring(static_cast<size_t>(n)), chain(static_cast<size_t>(n), -1);
    for (int pe = 0; pe < n; ++pe) ring[static_cast<size_t>(pe)] = (pe + 1) % n;
    for (int pe = 0; pe + 1 < n; ++pe) chain[static_cast<size_t>(pe)] = pe + 1;
    for (const auto& edges : {ring, chain}) {
      for (const size_t bytes : kSizes) {
        for (const Placement placement : kPlacements) {
          CAPTURE(bytes);
          const MessageKey key = NextKey();
          RunPes(n, [&](int pe) {
            PermuteTransfer transfer(key, pe, edges, {bytes, 3}, placement);
            CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
            CHECK(transfer.Verdict() == "");
          });
        }
      }
    }
  }
}

TEST_CASE("All-reduces have the bits of a reduction in group order") {
  Job job(InProcess(4));
  for (const size_t bytes : kSizes) {
    for (const Placement placement : kPlacements) {
      CAPTURE(bytes);
      const MessageKey key = NextKey();
      RunPes(4, [&](int pe) {
        AllReduceTransfer transfer(key, pe, {ReductionKind::kSum, {2, 0, 3, 1}, {ElementType::kF32}, {bytes / 4}},
                                   placement);
        CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
        CHECK(transfer.Verdict() == "");
      });
    }
  }
}

TEST_CASE("Members that have left to the progress engine are woken by the last one") {
  JobOptions options = InProcess(3);
  options.spin = std::chrono::microseconds(0);
  Job job(options);
  for (int turn = 0; turn < 20; ++turn) {
    const MessageKey key = NextKey();
    RunPes(3, [&](int pe) {
      if (pe == turn % 3) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      AllReduceTransfer transfer(key, pe, {ReductionKind::kSum, {0, 1, 2}, {ElementType::kF32}, {100}},
                                 Placement::kApart);
      CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
      CHECK(transfer.Verdict() == "");
    });
  }
}

TEST_CASE("A member that never comes is named, and nobody touches the buffers of those that gave up") {
  JobOptions options = InProcess(3);
  options.deadline = std::chrono::milliseconds(200);
  Job job(options);
  const MessageKey key = NextKey();
  std::vector<float> memory(6, 1.0F);
  const auto make = [&](int pe) {
    CollectiveArguments arguments;
    arguments.op = CollectiveOp::kAllReduce;
    arguments.key = key;
    arguments.name = "sum.1";
    arguments.group = {0, 1, 2};
    arguments.types = {ElementType::kF32};
    arguments.operands = {reinterpret_cast<const char*>(&memory[static_cast<size_t>(pe)])};
    arguments.results = {reinterpret_cast<char*>(&memory[3 + static_cast<size_t>(pe)])};
    arguments.bytes = {sizeof(float)};
    return MakeOperation(&job.context(pe), std::move(arguments));
  };
  std::vector<std::string> errors(2);
  RunPes(2, [&](int pe) { errors[static_cast<size_t>(pe)] = job.Finish(make(pe)); });
  for (const std::string& error : errors) {
    CHECK(error.find("all-reduce sum.1 (4 bytes, 3 PEs) on PE ") == 0);
    CHECK(error.find("; not arrived at this operation: PE 2; gave up after the deadline of 0.2 s") !=
          std::string::npos);
  }
  // As if PE 2 had not seen the failure yet.
  const std::unique_ptr<Operation> late = make(2);
  CHECK_FALSE(late->Poll());
  CHECK(memory == std::vector<float>(6, 1.0F));
}

TEST_CASE("Who comes last to a large collective wakes the others before it begins") {
  Job job(InProcess(2));
  const auto rings = [&](size_t bytes) {
    const MessageKey key = NextKey();
    PermuteTransfer permute(key, 0, {1, 0}, {bytes}, Placement::kApart);
    PermuteTransfer other(key, 1, {1, 0}, {bytes}, Placement::kApart);
    const std::unique_ptr<Operation> first = permute.Begin(job.context(0));
    const std::unique_ptr<Operation> last = other.Begin(job.context(1));
    CHECK_FALSE(first->Poll());
    shm::Doorbell& bell = job.context(0).heap->OwnBell();
    const uint32_t ticket = shm::PrepareSleep(bell);
    CHECK(last->Poll());
    shm::FinishSleep(bell);
    CHECK(first->Poll());
    return bell.ticket.load() - ticket;
  };
  // Behind the last chunk in any case.
  CHECK(rings(64 << 10) == 1);
  CHECK(rings(1 << 20) == 2);
}

TEST_CASE("A thread waits longer for a large collective") {
  Job job(InProcess(2));
  const auto patience = [&](size_t bytes) {
    PermuteTransfer permute(NextKey(), 0, {1, 0}, {bytes}, Placement::kApart);
    return permute.Begin(job.context(0))->Patience();
  };
  CHECK(patience(64 << 10) == 1);
  CHECK(patience(1 << 20) == 5);
  CHECK(patience(64 << 20) == patience(8 << 20));
}

TEST_CASE("Giving up waits for a thread that is at work") {
  constexpr size_t kBytes = 16 << 20;
  std::vector<char> from(kBytes, 'f'), to(kBytes, 't');
  InProcessMeeting meeting(2, SIZE_MAX);
  std::atomic<int> planned{0};
  const PlanInProcess plan = [&](const std::vector<MemberBuffers>& members) {
    ++planned;
    InProcessPlan plan;
    plan.AddMove(members[0].operands[0], members[1].results[0], kBytes);
    return plan;
  };
  CHECK_FALSE(meeting.Arrive(0, {{from.data()}, {}}, plan));
  bool is_last = false;
  CHECK_FALSE(meeting.Work(0, &is_last));
  CHECK(meeting.Arrive(1, {{}, {to.data()}}, plan));
  CHECK(planned == 1);
  std::thread worker([&] {
    bool ran_last = false;
    meeting.Work(1, &ran_last);
  });
  meeting.Stop();
  const size_t written = static_cast<size_t>(std::count(to.begin(), to.end(), 'f'));
  memset(to.data(), 'x', kBytes);  // freed and used again
  worker.join();
  CHECK_FALSE(meeting.Work(0, &is_last));
  CHECK(std::count(to.begin(), to.end(), 'x') == static_cast<std::ptrdiff_t>(kBytes));
  CHECK((meeting.done() ? written == kBytes : written < kBytes));
}

TEST_CASE("The PEs of a permute's pairs do not wait for PEs of pairs that share none with them") {
  Job job(InProcess(4));
  const MessageKey key = NextKey();
  PermuteTransfer first(key, 0, {1, 0, 3, 2}, {1000}, Placement::kApart);
  PermuteTransfer second(key, 1, {1, 0, 3, 2}, {1000}, Placement::kApart);
  const std::unique_ptr<Operation> one = first.Begin(job.context(0));
  const std::unique_ptr<Operation> other = second.Begin(job.context(1));
  bool one_done = false;
  bool other_done = false;
  for (int round = 0; round < 1000; ++round) {
    one_done = one_done || one->Poll();
    other_done = other_done || other->Poll();
  }
  CHECK(one_done);
  CHECK(other_done);
  CHECK(first.Verdict() == "");
  CHECK(second.Verdict() == "");
}

}  // namespace
}  // namespace xla_shmem::testing
