// The progress engine with operations that finish.
#include "xla_patch/shm/progress_engine.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/shm/gate_operation.h"
#include "tests/shm/test_heap.h"
#include "tests/types/value_of.h"

namespace xla_shmem::shm {
namespace {

using testing::GateOperation;
using testing::HeapOfOneProcess;
using testing::Outcome;
using testing::ValueOf;
using namespace std::chrono_literals;

constexpr size_t kBytes = 1 << 20;

TEST_CASE("An operation that is ready finishes inline, without another thread") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 10s);
  std::atomic<uint64_t> gate{1};
  GateOperation operation(&gate);
  CHECK(ValueOf(engine.TryInline(operation)));
}

TEST_CASE("An operation that is not ready stays with its caller, without an error") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 10s);
  std::atomic<uint64_t> gate{0};
  GateOperation operation(&gate);
  CHECK_FALSE(ValueOf(engine.TryInline(operation)));
}

// A slow operation that does or does not report progress.
class SlowOperation : public Operation {
 public:
  // Finishes at Poll number `polls`. Each Poll takes `each`.
  SlowOperation(int polls, std::chrono::milliseconds each, bool makes_progress, int patience = 1)
      : left_(polls), each_(each), makes_progress_(makes_progress), patience_(patience) {}
  bool Poll() override {
    std::this_thread::sleep_for(each_);
    return --left_ <= 0;
  }
  bool made_progress() const override { return makes_progress_; }
  int Patience() const override { return patience_; }
  std::string Describe(const std::set<int>&) const override { return "slow"; }
  std::set<int> WaitsFor() const override { return {}; }
  void Abandon() override {}

 private:
  int left_;
  const std::chrono::milliseconds each_;
  const bool makes_progress_;
  const int patience_;
};

TEST_CASE("An operation that makes progress is polled longer than one that waits, but not for ever") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 60ms, 10s);
  SlowOperation waits(5, 30ms, false), progresses(5, 30ms, true), endless(1000, 30ms, true);
  CHECK_FALSE(ValueOf(engine.TryInline(waits)));
  CHECK(ValueOf(engine.TryInline(progresses)));
  CHECK_FALSE(ValueOf(engine.TryInline(endless)));
}

TEST_CASE("An operation may ask its caller for more patience, up to a second") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 60ms, 10s);
  SlowOperation patient(5, 30ms, false, 100), too_patient(1000, 30ms, false, 3);
  CHECK(ValueOf(engine.TryInline(patient)));
  CHECK_FALSE(ValueOf(engine.TryInline(too_patient)));
  SlowOperation most_patient(100, 30ms, false, 1000);
  CHECK_FALSE(ValueOf(engine.TryInline(most_patient)));
}

class CountedOperation : public GateOperation {
 public:
  CountedOperation(const std::atomic<uint64_t>* gate, std::atomic<int64_t>* polls)
      : GateOperation(gate), polls_(polls) {}
  bool Poll() override {
    polls_->fetch_add(1, std::memory_order_relaxed);
    return GateOperation::Poll();
  }

 private:
  std::atomic<int64_t>* const polls_;
};

TEST_CASE("Of many operations the oldest are polled at each pass, and the others now and then") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 10s, 30s);
  std::atomic<uint64_t> gate{0};
  std::atomic<int64_t> first{0}, middle{0}, last{0};
  std::atomic<int> left{202};
  Outcome outcome;
  const auto submit = [&](std::atomic<int64_t>* polls) {
    engine.Submit(std::make_unique<CountedOperation>(&gate, polls), [&](const Status& status) {
      if (--left == 0) outcome.Set(status.message());
    });
  };
  submit(&first);
  for (int i = 0; i < 200; ++i) submit(&middle);
  submit(&last);
  while (last < 5) std::this_thread::yield();  // not never
  CHECK(first > 16 * last);
  gate = 1;
  CHECK(outcome.Get() == "");
}

TEST_CASE("With many operations in flight a caller does not wait for one of them") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20ms, 30s);
  std::atomic<uint64_t> never{0};
  std::atomic<int64_t> polls{0};
  for (int i = 0; i < 8; ++i) engine.Submit(std::make_unique<GateOperation>(&never), [](const Status&) {});
  CountedOperation operation(&never, &polls);
  CHECK_FALSE(ValueOf(engine.TryInline(operation)));
  CHECK(polls == 1);
}

TEST_CASE("A submitted operation completes once, after its signal, and is destroyed before its completion") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 10s);
  std::atomic<uint64_t> gate{0};
  std::atomic<bool> destroyed{false};
  auto operation = std::make_unique<GateOperation>(&gate);
  operation->destroyed = &destroyed;
  std::atomic<int> calls{0};
  bool destroyed_first = false;
  Outcome outcome;
  engine.Submit(std::move(operation), [&](const Status& status) {
    destroyed_first = destroyed;
    ++calls;
    outcome.Set(status.message());
  });
  std::this_thread::sleep_for(20ms);
  CHECK(calls == 0);
  gate = 1;
  Ring(heap->OwnBell());
  CHECK(outcome.Get() == "");
  CHECK(destroyed_first);
  CHECK(calls == 1);
}

TEST_CASE("A caller may sleep until its operation has finished") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 10s);
  std::atomic<uint64_t> gate{0};
  std::thread peer([&] {
    std::this_thread::sleep_for(20ms);
    gate = 1;
    Ring(heap->OwnBell());
  });
  CHECK(engine.Finish(std::make_unique<GateOperation>(&gate)).ok());
  CHECK(gate == 1);
  peer.join();
}

TEST_CASE("A signal wakes a sleeping engine at once") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 0us, 10s);
  std::chrono::nanoseconds slowest{0};
  for (int round = 0; round < 50; ++round) {
    std::atomic<uint64_t> gate{0};
    Outcome outcome;
    engine.Submit(std::make_unique<GateOperation>(&gate), [&](const Status& status) { outcome.Set(status.message()); });
    while (heap->OwnBell().sleepers == 0) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    gate = 1;
    Ring(heap->OwnBell());
    CHECK(outcome.Get() == "");
    slowest = std::max(slowest, std::chrono::steady_clock::now() - start);
  }
  // A lost ring would cost the whole 100 ms of a sleep each time.
  CHECK(slowest < 5s);
}

// Makes progress once, in the poll that comes before the engine's thread sleeps: it opens a gate.
class OpensBeforeSleep : public GateOperation {
 public:
  OpensBeforeSleep(std::atomic<uint64_t>* gate, const Doorbell* bell) : GateOperation(gate), gate_(gate), bell_(bell) {}
  bool Poll() override {
    if (has_opened_) return true;
    has_opened_ = bell_->sleepers != 0;
    if (has_opened_) *gate_ = 1;
    return false;
  }
  bool made_progress() const override { return has_opened_; }

 private:
  std::atomic<uint64_t>* const gate_;
  const Doorbell* const bell_;
  bool has_opened_ = false;
};

TEST_CASE("The engine does not sleep after a poll that made progress: older operations may go on") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 0us, 30s);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 50; ++round) {
    std::atomic<uint64_t> gate{0};
    Outcome older, opener;
    engine.Submit(std::make_unique<GateOperation>(&gate), [&](const Status& status) { older.Set(status.message()); });
    engine.Submit(std::make_unique<OpensBeforeSleep>(&gate, &heap->OwnBell()),
                  [&](const Status& status) { opener.Set(status.message()); });
    CHECK(older.Get() == "");
    CHECK(opener.Get() == "");
  }
  // A sleep of 100 ms in each round would take 5 s.
  CHECK(std::chrono::steady_clock::now() - start < 3s);
}

TEST_CASE("An operation that is submitted while the engine sleeps is polled at once") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 0us, 30s);
  std::atomic<uint64_t> never{0}, ready{1};
  Outcome stuck;
  engine.Submit(std::make_unique<GateOperation>(&never), [&](const Status& status) { stuck.Set(status.message()); });
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 300; ++round) {
    if (round % 3 == 0) {
      while (heap->OwnBell().sleepers == 0) std::this_thread::yield();
    }
    Outcome outcome;
    engine.Submit(std::make_unique<GateOperation>(&ready),
                  [&](const Status& status) { outcome.Set(status.message()); });
    CHECK(outcome.Get() == "");
  }
  CHECK(std::chrono::steady_clock::now() - start < 10s);  // 300 lost rings would take 30 s
  never = 1;
  Ring(heap->OwnBell());
  CHECK(stuck.Get() == "");
}

TEST_CASE("A long completion does not stop other operations") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 30s);
  std::atomic<uint64_t> first{0}, second{0};
  Outcome second_done, first_done;
  engine.Submit(std::make_unique<GateOperation>(&first), [&](const Status&) {
    second = 1;
    Ring(heap->OwnBell());
    first_done.Set(second_done.Get());  // returns only when another thread has completed the second
  });
  engine.Submit(std::make_unique<GateOperation>(&second),
                [&](const Status& status) { second_done.Set(status.message()); });
  first = 1;
  Ring(heap->OwnBell());
  CHECK(first_done.Get() == "");
}

TEST_CASE("Long completions do not stop operations that are submitted later") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 30s);
  constexpr int kDepth = 8;
  std::atomic<uint64_t> ready{1};
  Outcome release, all;
  std::atomic<int> left{kDepth};
  for (int i = 0; i < kDepth; ++i) {
    Outcome entered;
    engine.Submit(std::make_unique<GateOperation>(&ready), [&](const Status&) {
      entered.Set("");
      release.Get();
      if (--left == 0) all.Set("");
    });
    CHECK(entered.Get() == "");
  }
  release.Set("");
  CHECK(all.Get() == "");
}

TEST_CASE("Completions of operations that finish together may wait for each other") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 30s);
  std::atomic<uint64_t> ready{0};
  Outcome entered[2], left[2];
  for (int i = 0; i < 2; ++i) {
    engine.Submit(std::make_unique<GateOperation>(&ready), [&entered, &left, i](const Status&) {
      entered[i].Set("");
      left[i].Set(entered[1 - i].Get());
    });
  }
  ready = 1;
  Ring(heap->OwnBell());
  CHECK(left[0].Get() == "");
  CHECK(left[1].Get() == "");
}

TEST_CASE("Completions may submit further operations, thousands deep") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 5us, 30s);
  std::atomic<uint64_t> ready{1};
  std::atomic<int> left{20000};
  Outcome done;
  std::function<void(const Status&)> next = [&](const Status& status) {
    if (!status.ok() || --left == 0) return done.Set(status.message());
    engine.Submit(std::make_unique<GateOperation>(&ready), next);
  };
  engine.Submit(std::make_unique<GateOperation>(&ready), next);
  CHECK(done.Get() == "");
}

TEST_CASE("Many threads submit at once and every completion runs exactly once") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 5us, 30s);
  constexpr int kThreads = 4, kEach = 3000;
  std::vector<std::atomic<uint64_t>> gates(kThreads * kEach);
  std::vector<std::atomic<int>> calls(kThreads * kEach);
  std::atomic<int> finished{0};
  Outcome all;
  testing::RunPes(kThreads, [&](int thread) {
    for (int i = 0; i < kEach; ++i) {
      const int index = thread * kEach + i;
      engine.Submit(std::make_unique<GateOperation>(&gates[index]), [&, index](const Status&) {
        ++calls[index];
        if (++finished == kThreads * kEach) all.Set("");
      });
      if (i >= 5) {
        gates[index - 5] = 1;
        Ring(heap->OwnBell());
      }
    }
    for (int i = kEach - 5; i < kEach; ++i) gates[thread * kEach + i] = 1;
    Ring(heap->OwnBell());
  });
  CHECK(all.Get() == "");
  bool once = true;
  for (const auto& count : calls) once &= count == 1;
  CHECK(once);
}

}  // namespace
}  // namespace xla_shmem::shm
