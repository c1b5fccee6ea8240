// Operations whose PEs have few slots or very different numbers of them: smaller geometries, the reserve, and waits for
// a block.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/shm/gate_operation.h"
#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/traffic.h"
#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/collectives.h"

namespace xla_shmem::testing {
namespace {

constexpr size_t kLarge = 64 + 4 * kSlotBytes, kSmall = 64 << 10, kSmallest = 4 << 10;

// Every message that is not eager goes through slots.
JobOptions Staged(int n_pes = 2) {
  JobOptions options;
  options.n_pes = n_pes;
  options.single_copy = shm::SingleCopy::kOff;
  return options;
}

// Takes blocks until the PE's arena has no block larger than `largest` bytes, and at most one of that size.
void LeaveOnly(Job& job, int pe, size_t largest) {
  SlotPool* slots = job.context(pe).slots;
  char* kept = largest == 0 ? nullptr : slots->Take(largest);
  for (size_t bytes = 4 << 20; bytes >= 256; bytes /= 2) {
    while (slots->Take(bytes) != nullptr) {
    }
  }
  if (kept != nullptr) slots->Return(kept, largest);
}

TEST_CASE("A block and its signal fill a power of two, so the arena and the reserve have no gaps") {
  JobOptions options = Staged();
  options.arena_bytes = 256 << 10;
  options.reserve_bytes = 64 << 10;
  Job job(options);
  BlockSet small, smallest;
  CHECK(TakeBlocks(job.context(0), 8 << 20, 4, &small));
  CHECK(small.pool == job.context(0).slots);
  CHECK(TakeBlocks(job.context(0), 8 << 20, 16, &smallest));
  CHECK(smallest.pool == job.context(0).reserve);
}

TEST_CASE("Blocks come in the preferred geometry, then small ones, then smallest ones from the reserve") {
  Job job(Staged());
  BlockSet set;
  const PeContext& context = job.context(0);
  REQUIRE(TakeBlocks(context, 8 << 20, 1, &set));
  CHECK(set.geometry.slot_bytes == kSlotBytes);
  CHECK(set.geometry.num_slots == kSlotsInFlight);
  ReturnBlocks(set);
  LeaveOnly(job, 0, kSmall);
  BlockSet small;
  REQUIRE(TakeBlocks(context, 8 << 20, 1, &small));
  CHECK(small.geometry.slot_bytes == kSmall - kSignalLine);
  CHECK(small.geometry.num_slots == 1);
  BlockSet smallest;
  REQUIRE(TakeBlocks(context, 8 << 20, 3, &smallest));
  CHECK(smallest.geometry.slot_bytes == kSmallest - kSignalLine);
  CHECK(smallest.pool == context.reserve);
  ReturnBlocks(smallest);
  while (context.reserve->Take(kSmallest) != nullptr) {
  }
  BlockSet none;
  CHECK_FALSE(TakeBlocks(context, 8 << 20, 1, &none));
  CHECK(none.blocks.empty());
}

TEST_CASE("If PEs share cores, a single message gets more slots, as far as there are any") {
  Job job(Staged());
  PeContext context = job.context(0);
  context.is_oversubscribed = true;
  const auto taken = [&](size_t payload, size_t count) {
    BlockSet set;
    REQUIRE(TakeBlocks(context, payload, count, &set));
    ReturnBlocks(set);
    return set.geometry.num_slots;
  };
  CHECK(taken(8 << 20, 1) == kOversubscribedSlotsInFlight);
  CHECK(taken(1 << 20, 1) == 9);  // the whole arena
  CHECK(taken(8 << 20, 2) == kSlotsInFlight);
  LeaveOnly(job, 0, 512 << 10);
  CHECK(taken(8 << 20, 1) == kSlotsInFlight);
}

TEST_CASE("If PEs share cores, a thread waits longer for a large message") {
  Job job(Staged());
  PeContext context = job.context(0);
  PermuteTransfer small({1, 1}, 0, {1, 0}, {64 << 10}, Placement::kApart);
  PermuteTransfer large({2, 1}, 0, {1, 0}, {1 << 20}, Placement::kApart);
  for (const bool is_oversubscribed : {false, true}) {
    context.is_oversubscribed = is_oversubscribed;
    CHECK(small.Begin(context)->Patience() == 1);
    CHECK(large.Begin(context)->Patience() == (is_oversubscribed ? 5 : 1));
  }
}

TEST_CASE("A block set that would be incomplete takes no block") {
  JobOptions options = Staged();
  options.reserve_bytes = 64 << 10;
  Job job(options);
  LeaveOnly(job, 0, 0);
  const size_t before = job.FreeReserveBlocks(0, kSmallest);
  BlockSet set;
  CHECK_FALSE(TakeBlocks(job.context(0), 1 << 20, before + 1, &set));
  CHECK(job.FreeReserveBlocks(0, kSmallest) == before);
}

TEST_CASE("In-place rings in which every PE has slots of another size do not deadlock") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const int n = 2 + static_cast<int>(random() % 5);
    Job job(Staged(n));
    const size_t choices[] = {kLarge, kSmall, 0};
    for (int pe = 0; pe < n; ++pe) LeaveOnly(job, pe, choices[random() % 3]);
    std::vector<int> target_of(n);
    for (int pe = 0; pe < n; ++pe) target_of[pe] = (pe + 1) % n;
    std::vector<size_t> bytes(1 + random() % 4);
    for (size_t& size : bytes) size = random() % (1 << (10 + random() % 11));
    const auto placement = static_cast<Placement>(random() % 4);
    RunPes(n, [&](int pe) {
      PermuteTransfer transfer({1, 1}, pe, target_of, bytes, placement);
      CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
      CHECK(transfer.Verdict() == "");
    });
  }
}

TEST_CASE("All-reduces whose members have slots of different sizes agree on the smallest and do not deadlock") {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const int n = 2 + static_cast<int>(random() % 4);
    Job job(Staged(n));
    const size_t choices[] = {kLarge, kSmall, 0};
    for (int pe = 0; pe < n; ++pe) LeaveOnly(job, pe, choices[random() % 3]);
    Reduction reduction;
    reduction.group.resize(n);
    std::iota(reduction.group.begin(), reduction.group.end(), 0);
    std::shuffle(reduction.group.begin(), reduction.group.end(), random);
    reduction.types.assign(1 + random() % 3, ElementType::kF32);
    for (size_t i = 0; i < reduction.types.size(); ++i) {
      reduction.elements.push_back(random() % (1 << (5 + random() % 13)));
    }
    const Placement placement = random() % 2 == 0 ? Placement::kApart : Placement::kInPlace;
    RunPes(n, [&](int pe) {
      AllReduceTransfer transfer({1, 1}, pe, reduction, placement);
      CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
      CHECK(transfer.Verdict() == "");
    });
  }
}

TEST_CASE("An operation that finds even the reserve empty continues when a block is returned") {
  JobOptions options = Staged();
  options.reserve_bytes = kSmallest;
  Job job(options);
  LeaveOnly(job, 0, 0);
  char* last = job.context(0).reserve->Take(kSmallest);
  REQUIRE(last != nullptr);
  PermuteTransfer first({1, 1}, 0, {1, 0}, {10000}, Placement::kInPlace),
      second({1, 1}, 1, {1, 0}, {10000}, Placement::kInPlace);
  Outcome first_done, second_done;
  job.Start(first.Begin(job.context(0)), [&](const Status& status) { first_done.Set(status.message()); });
  job.Start(second.Begin(job.context(1)), [&](const Status& status) { second_done.Set(status.message()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  job.context(0).reserve->Return(last, kSmallest);
  CHECK(first_done.Get() == "");
  CHECK(second_done.Get() == "");
  CHECK(first.Verdict() == "");
  CHECK(second.Verdict() == "");
}

TEST_CASE("An operation that has received everything gives its block to one that its peers wait for") {
  JobOptions options = Staged();
  options.reserve_bytes = kSmallest;  // one block a PE
  Job job(options);
  LeaveOnly(job, 0, 0);
  LeaveOnly(job, 1, 0);
  std::vector<std::unique_ptr<PermuteTransfer>> transfers;
  std::vector<std::unique_ptr<Operation>> operations;
  // The order gives the block of PE 0 to operation 1, and that of PE 1 to operation 2.
  for (const auto& [operation, pe] : {std::pair(1, 0), std::pair(2, 1), std::pair(1, 1), std::pair(2, 0)}) {
    transfers.push_back(std::make_unique<PermuteTransfer>(MessageKey{static_cast<uint64_t>(operation), 1}, pe,
                                                          std::vector<int>{1, 0}, std::vector<size_t>{10000},
                                                          Placement::kApart));
    operations.push_back(transfers.back()->Begin(job.context(pe)));
  }
  std::vector<bool> done(operations.size());
  for (int round = 0; round < 1000; ++round) {
    for (size_t i = 0; i < operations.size(); ++i) {
      if (!done[i]) done[i] = operations[i]->Poll();
    }
  }
  for (size_t i = 0; i < operations.size(); ++i) {
    CHECK(done[i]);
    CHECK(transfers[i]->Verdict() == "");
  }
  CHECK(job.FreeReserveBlocks(0, kSmallest) == 1);
  CHECK(job.FreeReserveBlocks(1, kSmallest) == 1);
}

TEST_CASE("The error of an operation that gets no block names the option") {
  JobOptions options = Staged();
  options.reserve_bytes = kSmallest;
  options.deadline = std::chrono::milliseconds(200);
  Job job(options);
  LeaveOnly(job, 0, 0);
  REQUIRE(job.context(0).reserve->Take(kSmallest) != nullptr);
  SUBCASE("permute") {
    PermuteTransfer transfer({1, 1}, 0, {-1, 0}, {10000}, Placement::kApart);
    const std::string error = job.Finish(transfer.Begin(job.context(0)));
    CHECK(error.find("no free slots for its peers to put into (raise XLA_SHMEM_HEAP_SIZE)") != std::string::npos);
  }
  SUBCASE("all-reduce") {
    AllReduceTransfer transfer({1, 1}, 0, {ReductionKind::kSum, {0, 1}, {ElementType::kF32}, {5000}},
                               Placement::kApart);
    const std::string error = job.Finish(transfer.Begin(job.context(0)));
    CHECK(error.find("no free slots for its peers to put into (raise XLA_SHMEM_HEAP_SIZE)") != std::string::npos);
  }
}

TEST_CASE("Many large permutes at once share an arena that holds two of them") {
  JobOptions options = Staged();
  options.n_pes = 3;
  options.reserve_bytes = 2 << 20;
  Job job(options);
  constexpr int kOperations = 30;
  RunPes(3, [&](int pe) {
    std::vector<std::unique_ptr<PermuteTransfer>> transfers;
    std::vector<Outcome> outcomes(kOperations);
    std::vector<int> order(kOperations);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(pe));
    for (int i = 0; i < kOperations; ++i) {
      transfers.push_back(std::make_unique<PermuteTransfer>(MessageKey{static_cast<uint64_t>(i), 1}, pe,
                                                            std::vector<int>{1, 2, 0}, std::vector<size_t>{1 << 20},
                                                            i % 2 == 0 ? Placement::kInPlace : Placement::kApart));
    }
    for (int i : order) {
      job.Start(transfers[i]->Begin(job.context(pe)),
                [&outcomes, i](const Status& status) { outcomes[i].Set(status.message()); });
    }
    for (int i = 0; i < kOperations; ++i) {
      CHECK(outcomes[i].Get() == "");
      CHECK(transfers[i]->Verdict() == "");
    }
  });
}

// Puts a whole message of at most four slots into those that the receiver grants.
void PutAll(const PeContext& context, int receiver, const MessageKey& key, size_t bytes) {
  SendChannel channel;
  while (!channel.Open(context, receiver, key)) usleep(100);
  for (size_t at = 0; at < bytes; at += channel.slot_bytes()) {
    memset(channel.FreeSlot(), 'x', std::min(channel.slot_bytes(), bytes - at));
    channel.Signal(context);
  }
}

TEST_CASE("An operation that gives blocks back wakes those of its process that wait for one" *
          doctest::skip(kBlindToOtherProcesses)) {
  const shm::JobKey job_key = RandomJobKey();
  ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const JobOptions options = Staged();
    Job job(options, HeapOfProcesses(group, job_key, rank, 2, Job::HeapBytes(options)));
    constexpr MessageKey kKey{7, 1};
    constexpr size_t kBytes = 200'000;
    if (rank == 0) {
      group.Meet();
      PutAll(job.context(0), 1, kKey, kBytes);
      group.Meet();
      group.Meet();
      return "";
    }
    std::vector<char> result(kBytes);
    CollectiveArguments arguments;
    arguments.op = CollectiveOp::kCollectivePermute;
    arguments.key = kKey;
    arguments.source = 0;
    arguments.operands = {result.data()};
    arguments.results = {result.data()};
    arguments.bytes = {kBytes};
    const std::unique_ptr<Operation> operation = MakeOperation(&job.context(1), std::move(arguments));
    const bool too_early = operation->Poll();  // grants
    group.Meet();                              // it puts
    group.Meet();
    // From here on nobody but this thread rings the bell.
    shm::Doorbell& bell = job.heap().OwnBell();
    const uint32_t ticket = shm::PrepareSleep(bell);
    bool finished = false;
    for (int polls = 0; polls < 1000 && !finished; ++polls) finished = operation->Poll();
    const bool rang = bell.ticket != ticket;
    shm::FinishSleep(bell);
    group.Meet();
    if (too_early || !finished || result.back() != 'x') return "the message has not come";
    return rang ? "" : "nobody is woken";
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

}  // namespace
}  // namespace xla_shmem::testing
