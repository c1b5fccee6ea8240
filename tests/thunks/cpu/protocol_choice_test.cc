#include "xla_patch/thunks/cpu/protocol_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>

namespace xla_shmem::testing {
namespace {

using Way = ProtocolChoice::Way;
constexpr auto kOp = CollectiveOp::kCollectivePermute;
constexpr size_t kBytes = 1 << 20;

struct Table {
  alignas(64) std::array<char, ProtocolChoice::Bytes()> bytes{};
};

// A made-up machine.
struct Machine {
  double reads_us = 100, slots_us = 100;
  double noise = 0;        // standard deviation of the logarithm of a time
  double disturbance = 0;  // chance that something else runs, and a time is ten times as long
  double drift = 0;        // the whole machine is slower by up to this factor, and faster again
};

class FakeJob {
 public:
  FakeJob(const Machine& machine, uint64_t seed) : machine_(machine), random_(seed), operation_(random_()) {}

  // Returns the mean time of one of `count` executions.
  double Run(int count) {
    double total = 0;
    for (int i = 0; i < count; ++i) {
      const auto decision = choice_.Decide(kOp, kBytes, {operation_, static_cast<uint64_t>(executed_) << 32});
      const double us = TimeOf(decision.way);
      if (decision.is_measured) choice_.Record(kOp, kBytes, decision.way, static_cast<int64_t>(us * 1000));
      total += decision.way == Way::kReads ? machine_.reads_us : machine_.slots_us;
      ++executed_;
    }
    return total / count;
  }

  // What an execution that is no trial does.
  Way Preferred() const {
    for (uint64_t run = 0; run < 1000; ++run) {
      const auto decision = choice_.Decide(kOp, kBytes, {operation_, run << 32});
      if (!decision.is_measured) return decision.way;
    }
    throw std::runtime_error("it still tries both ways");
  }
  void Change(const Machine& machine) { machine_ = machine; }

 private:
  double TimeOf(Way way) {
    double us = way == Way::kReads ? machine_.reads_us : machine_.slots_us;
    us *= std::exp(std::normal_distribution<double>(0, 1)(random_) * machine_.noise);
    if (std::uniform_real_distribution<double>(0, 1)(random_) < machine_.disturbance) us *= 10;
    return us * (1 + machine_.drift * (1 + std::sin(executed_ / 50.0)) / 2);
  }

  Machine machine_;
  std::mt19937_64 random_;
  const uint64_t operation_;
  const std::unique_ptr<Table> table_ = std::make_unique<Table>();
  ProtocolChoice choice_{table_->bytes.data(), 0};
  int executed_ = 0;
};

TEST_CASE("Twenty jobs on a noisy machine choose alike, and lose less than 5 %") {
  for (const auto& times : {std::pair{100.0, 143.0}, std::pair{143.0, 100.0}, std::pair{300.0, 2000.0}}) {
    const double reads_us = times.first, slots_us = times.second;
    CAPTURE(reads_us);
    const Machine machine{reads_us, slots_us, 0.3, 0.1, 1.0};
    const double best = std::min(reads_us, slots_us);
    for (uint64_t seed = 0; seed < 20; ++seed) {
      FakeJob job(machine, seed);
      job.Run(1000);
      CHECK(job.Preferred() == (reads_us < slots_us ? Way::kReads : Way::kSlots));
      CHECK(job.Run(4000) < 1.05 * best);
    }
  }
}

TEST_CASE("A calm machine needs few trials") {
  FakeJob job({100, 150}, 1);
  job.Run(10);
  const double settled = job.Run(6400);
  CHECK(settled < 101.5);
  CHECK(settled > 100);  // it goes on trying
}

TEST_CASE("The choice follows a machine that changes") {
  FakeJob job({100, 150, 0.2}, 1);
  job.Run(2000);
  REQUIRE(job.Preferred() == Way::kReads);
  job.Change({150, 100, 0.2});
  job.Run(12000);
  CHECK(job.Preferred() == Way::kSlots);
}

TEST_CASE("Ways of one speed do not take turns") {
  FakeJob job({100, 101}, 1);
  for (int times = 0; times < 50; ++times) {
    job.Run(64);
    CHECK(job.Preferred() == Way::kReads);
  }
}

TEST_CASE("All members of a collective try the same way at the same time, both ways equally often") {
  Table table;
  const ProtocolChoice one(table.bytes.data(), 0), other(table.bytes.data(), 1);
  int reads = 0;
  for (uint64_t execution = 0; execution < 64; ++execution) {
    // Runs and loops, and operations that run once.
    const MessageKey key{execution * 0x9e3779b97f4a7c15ull, execution / 4 << 32 | execution % 4};
    const auto decision = one.Decide(kOp, kBytes, key);
    CHECK(decision.is_measured);
    CHECK(other.Decide(kOp, kBytes, key).way == decision.way);
    reads += decision.way == Way::kReads;
  }
  CHECK(reads > 20);
  CHECK(reads < 44);
}

// Records one ratio.
void Try(ProtocolChoice* choice, int64_t reads_us, int64_t slots_us) {
  choice->Record(kOp, kBytes, Way::kReads, reads_us * 1000);
  choice->Record(kOp, kBytes, Way::kSlots, slots_us * 1000);
}

constexpr MessageKey kNoTrial{7, 0};

TEST_CASE("The first verdict of a process holds for all of the host, and that process alone changes it") {
  Table table;
  ProtocolChoice one(table.bytes.data(), 0), other(table.bytes.data(), 1);
  // A trial has its pair in the same process.
  other.Record(kOp, kBytes, Way::kReads, 10);
  for (int trial = 0; trial < 7; ++trial) Try(&one, 200, 190);
  for (const ProtocolChoice* choice : {&one, &other}) {
    const auto decision = choice->Decide(kOp, kBytes, kNoTrial);
    CHECK_FALSE(decision.is_measured);
    CHECK(decision.way == Way::kSlots);
  }
  // Only the owner measures, but all try.
  CHECK(one.Decide(kOp, kBytes, {0, 0}).is_measured);
  CHECK_FALSE(other.Decide(kOp, kBytes, {0, 0}).is_measured);
  CHECK(one.Decide(kOp, kBytes, {0, 0}).way == Way::kReads);
  CHECK(other.Decide(kOp, kBytes, {0, 0}).way == Way::kReads);
  for (int trial = 0; trial < 40; ++trial) Try(&other, 100, 200);
  CHECK(one.Decide(kOp, kBytes, kNoTrial).way == Way::kSlots);
  for (int trial = 0; trial < 40; ++trial) Try(&one, 100, 200);
  CHECK(other.Decide(kOp, kBytes, kNoTrial).way == Way::kReads);
}

TEST_CASE("The first trial counts for nothing") {
  Table table;
  ProtocolChoice choice(table.bytes.data(), 0);
  Try(&choice, 10000, 100);
  for (int trial = 0; trial < 3; ++trial) Try(&choice, 100, 200);
  CHECK(choice.Decide(kOp, kBytes, kNoTrial).is_measured);
  Try(&choice, 100, 200);
  CHECK_FALSE(choice.Decide(kOp, kBytes, kNoTrial).is_measured);
  CHECK(choice.Decide(kOp, kBytes, kNoTrial).way == Way::kReads);
}

TEST_CASE("Ops and sizes are judged by themselves") {
  Table table;
  ProtocolChoice choice(table.bytes.data(), 0);
  for (int trial = 0; trial < 10; ++trial) {
    choice.Record(kOp, kBytes, Way::kReads, 1000);
    choice.Record(kOp, kBytes, Way::kSlots, 2000);
  }
  const auto is_measured = [&](CollectiveOp op, size_t bytes) {
    return choice.Decide(op, bytes, kNoTrial).is_measured;
  };
  CHECK_FALSE(is_measured(kOp, kBytes));
  CHECK_FALSE(is_measured(kOp, kBytes + 64));
  CHECK(is_measured(kOp, 2 * kBytes));
  CHECK(is_measured(kOp, kBytes / 2));
  CHECK(is_measured(CollectiveOp::kAllGather, kBytes));
  CHECK(is_measured(CollectiveOp::kRaggedAllToAll, size_t{1} << 40));
}

TEST_CASE("Without a table all is read, and nothing is tried") {
  const ProtocolChoice choice(nullptr, 0);
  for (uint64_t run = 0; run < 200; ++run) {
    const auto decision = choice.Decide(kOp, kBytes, {1, run << 32});
    CHECK(decision.way == Way::kReads);
    CHECK_FALSE(decision.is_measured);
  }
}

}  // namespace
}  // namespace xla_shmem::testing
