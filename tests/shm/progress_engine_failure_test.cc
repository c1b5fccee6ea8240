// The progress engine with operations that never finish.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <new>

#include "tests/shm/gate_operation.h"
#include "tests/shm/test_heap.h"
#include "xla_patch/shm/cross_memory_reader.h"
#include "xla_patch/shm/progress_engine.h"

namespace xla_shmem::shm {
namespace {

using testing::GateOperation;
using testing::HeapOfOneProcess;
using testing::HeapOfProcesses;
using testing::Outcome;
using testing::ProcessGroup;
using testing::RandomJobKey;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kBytes = 1 << 20;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("An operation past its deadline fails with its description and the option") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 150ms);
  std::atomic<uint64_t> gate{0};
  std::atomic<bool> abandoned{false};
  auto operation = std::make_unique<GateOperation>(&gate);
  operation->abandoned = &abandoned;
  Outcome outcome;
  const auto start = Clock::now();
  engine.Submit(std::move(operation), [&](const Status& status) { outcome.Set(status.message()); });
  CHECK(outcome.Get() == "gate at 0; gave up after the deadline of 0.15 s (XLA_SHMEM_DEADLINE)");
  CHECK(Clock::now() - start >= 150ms);
  CHECK(Clock::now() - start < 5s);
  CHECK(abandoned);
}

TEST_CASE("A caller that sleeps until the deadline gets the error") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 150ms);
  std::atomic<uint64_t> never{0};
  const Status status = engine.Finish(std::make_unique<GateOperation>(&never));
  CHECK(status.message() == "gate at 0; gave up after the deadline of 0.15 s (XLA_SHMEM_DEADLINE)");
  CHECK(engine.status().message() == status.message());
}

TEST_CASE("A stuck operation reaches its deadline even if others keep the engine busy") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 1000000us, 200ms);
  std::atomic<uint64_t> never{0}, ready{1};
  std::atomic<bool> stop{false};
  Outcome stuck, stopped;
  std::function<void(const Status&)> next = [&](const Status&) {
    if (stop) return stopped.Set("");
    engine.Submit(std::make_unique<GateOperation>(&ready), next);
  };
  engine.Submit(std::make_unique<GateOperation>(&never), [&](const Status& status) {
    stop = true;
    stuck.Set(status.message());
  });
  engine.Submit(std::make_unique<GateOperation>(&ready), next);
  CHECK(Contains(stuck.Get(), "deadline"));
  CHECK(stopped.Get() == "");
}

TEST_CASE("A failed job stays failed, for inline and for submitted operations") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 10s);
  CHECK(engine.Fail("first reason").message() == "first reason");
  CHECK(engine.Fail("second reason").message() == "first reason");
  std::atomic<uint64_t> ready{1};
  GateOperation operation(&ready);
  CHECK(engine.TryInline(operation).message() == "first reason");
  Outcome outcome;
  engine.Submit(std::make_unique<GateOperation>(&ready), [&](const Status& status) { outcome.Set(status.message()); });
  CHECK(outcome.Get() == "first reason");
}

TEST_CASE("Shutdown fails pending operations and those that completions submit, exactly once each") {
  for (int round = 0; round < 200; ++round) {
    const auto heap = HeapOfOneProcess(1, 256 << 10);
    auto engine = std::make_unique<ProgressEngine>(heap.get(), 5us, 10s);
    std::atomic<uint64_t> never{0}, gate{0};
    std::atomic<int> calls{0}, shutdowns{0};
    auto count = [&](const Status& status) {
      ++calls;
      shutdowns += status.message() == "the process is shutting down";
    };
    ProgressEngine* raw = engine.get();
    for (int i = 0; i < 3; ++i) {
      raw->Submit(std::make_unique<GateOperation>(&never), count);
      raw->Submit(std::make_unique<GateOperation>(&gate), [&, raw](const Status& status) {
        count(status);
        raw->Submit(std::make_unique<GateOperation>(&never), count);
      });
    }
    if (round % 2 == 0) {
      gate = 1;
      Ring(heap->OwnBell());
    }
    if (round % 3 == 0) usleep(100);
    engine.reset();
    if (calls != 9) FAIL("round " << round << ": " << calls.load() << " completions");
    CHECK(shutdowns >= 6);
  }
}

TEST_CASE("An engine that was never used, or has only idle threads, shuts down") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  {
    ProgressEngine engine(heap.get(), 20us, 10s);
  }
  ProgressEngine engine(heap.get(), 20us, 10s);
  std::atomic<uint64_t> ready{1};
  Outcome outcome;
  engine.Submit(std::make_unique<GateOperation>(&ready), [&](const Status& status) { outcome.Set(status.message()); });
  CHECK(outcome.Get() == "");
}

// Submits an operation that waits for PE `waits_for` and never finishes. Returns its error; `took` is the time until
// then.
std::string WaitFor(Heap* heap, int waits_for, std::chrono::milliseconds* took) {
  ProgressEngine engine(heap, 20us, 30s);
  std::atomic<uint64_t> never{0};
  Outcome outcome;
  const auto start = Clock::now();
  engine.Submit(std::make_unique<GateOperation>(&never, waits_for),
                [&](const Status& status) { outcome.Set(status.message()); });
  const std::string error = outcome.Get();
  *took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  return error;
}

TEST_CASE("A killed peer is detected within a second, and all processes get the reason") {
  const JobKey key = RandomJobKey();
  ProcessGroup group(4);
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 4, kBytes);
    if (rank == 3) {
      raise(SIGKILL);
    }
    // PE 0 waits for the killed PE, the others wait for PE 0.
    std::chrono::milliseconds took;
    const std::string error = WaitFor(heap.get(), rank == 0 ? 3 : 0, &took);
    group.word(0).fetch_add(1);
    while (group.word(0) < 3)
      usleep(1000);  // no process exits before the others have their error, or there would be a second exit to detect
    return took < 1s ? error : "too late: " + error;
  });
  CHECK(group.Join(3) == "signal 9");
  CHECK(group.Join(0) == "gate at 0, not PE 3; process 3 (PE 3) has exited");
  const std::string told = "process 0 gave up: gate at 0, not PE 3; process 3 (PE 3) has exited; here: gate at 0";
  CHECK(group.Join(1) == told);
  CHECK(group.Join(2) == told);
  CHECK(testing::SegmentsOf(key).empty());
}

TEST_CASE("The exit of a peer does not fail operations that need nothing more from it") {
  const JobKey key = RandomJobKey();
  ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 2, kBytes);
    if (rank == 1) return "";
    while (heap->Alive(1)) usleep(1000);
    ProgressEngine engine(heap.get(), 20us, 30s);
    std::atomic<uint64_t> gate{0};
    Outcome outcome;
    engine.Submit(std::make_unique<GateOperation>(&gate), [&](const Status& status) { outcome.Set(status.message()); });
    std::this_thread::sleep_for(400ms);
    gate = 1;
    Ring(heap->OwnBell());
    return outcome.Get();
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

TEST_CASE("Fail in one process ends waits in another within a second") {
  const JobKey key = RandomJobKey();
  ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 2, kBytes);
    if (rank == 1) {
      usleep(100000);
      ProgressEngine engine(heap.get(), 20us, 30s);
      const Status failure = engine.Fail("disk on fire");
      if (failure.message() != "disk on fire") return failure.message();
      while (group.word(0) == 0) usleep(1000);
      return "";
    }
    std::chrono::milliseconds took;
    const std::string error = WaitFor(heap.get(), 1, &took);
    group.word(0) = 1;
    return took < 1100ms ? error : "too late: " + error;
  });
  CHECK(group.Join(0) == "process 1 gave up: disk on fire; here: gate at 0");
  CHECK(group.Join(1) == "");
}

// An operation that throws at poll number `throws_at`.
class ThrowingOperation : public GateOperation {
 public:
  ThrowingOperation(const std::atomic<uint64_t>* gate, int throws_at) : GateOperation(gate), left_(throws_at) {}
  bool Poll() override {
    if (--left_ == 0) throw std::bad_alloc();
    return GateOperation::Poll();
  }
  int polls_after() const { return -left_; }

 private:
  int left_;
};

TEST_CASE("An operation that throws fails the job, inline and in the engine, and is abandoned first") {
  for (const bool is_inline : {true, false}) {
    const auto heap = HeapOfOneProcess(1, kBytes);
    ProgressEngine engine(heap.get(), 20us, 10s);
    std::atomic<uint64_t> never{0};
    std::atomic<bool> abandoned{false};
    auto operation = std::make_unique<ThrowingOperation>(&never, 3);
    operation->abandoned = &abandoned;
    Outcome outcome;
    if (is_inline) {
      outcome.Set(engine.TryInline(*operation).message());
    } else {
      engine.Submit(std::move(operation), [&](const Status& status) { outcome.Set(status.message()); });
    }
    CHECK(outcome.Get() == "gate at 0; std::bad_alloc");
    CHECK(abandoned);
    CHECK(heap->JobStatus().message() == "gate at 0; std::bad_alloc");
  }
}

TEST_CASE("An operation that has thrown is not polled again") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  ProgressEngine engine(heap.get(), 20us, 10s);
  std::atomic<uint64_t> never{0};
  std::atomic<bool> abandoned{false};
  ThrowingOperation operation(&never, 1);
  operation.abandoned = &abandoned;
  CHECK(engine.TryInline(operation).message() == "gate at 0; std::bad_alloc");
  CHECK(operation.polls_after() == 0);
  CHECK(abandoned);
}

TEST_CASE("An operation whose engine can start no thread fails with the reason") {
  ProcessGroup group(1);
  group.Start([&](int) -> std::string {
    const auto heap = HeapOfOneProcess(1, kBytes);
    ProgressEngine engine(heap.get(), 20us, 10s);
    constexpr uid_t kNobody = 65534;  // the limit does not count for root
    if (geteuid() == 0 && setuid(kNobody) != 0) return "setuid failed";
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return "setrlimit failed";
    std::atomic<uint64_t> never{0};
    Outcome outcome;
    engine.Submit(std::make_unique<GateOperation>(&never),
                  [&](const Status& status) { outcome.Set(status.message()); });
    const std::string first = outcome.Get();
    GateOperation second(&never);
    return first == engine.TryInline(second).message() ? first : "the job goes on after: " + first;
  });
  const std::string error = group.Join(0);
  CHECK_MESSAGE(Contains(error, "cannot start a thread that drives collectives: Resource temporarily unavailable"),
                error);
}

TEST_CASE("Nobody reads the memory of a process that gave up because another process had failed") {
  const JobKey key = RandomJobKey();
  ProcessGroup group(3);
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 3, kBytes);
    const CrossMemoryReader reader(heap.get(), SingleCopy::kAlways);
    uint64_t operand = 7, read = 0;
    if (rank == 1) group.word(1) = reinterpret_cast<uint64_t>(&operand);
    group.Meet();
    std::string verdict;
    if (rank == 0) {
      ProgressEngine engine(heap.get(), 20us, 30s);
      verdict = engine.Fail("disk on fire").message();
      group.Meet();
    } else if (rank == 1) {
      std::chrono::milliseconds took;
      verdict = WaitFor(heap.get(), 0, &took);
      operand = 8;  // XLA reuses the memory of an operation that has failed
      group.Meet();
    } else {
      group.Meet();
      const RemotePiece piece{reinterpret_cast<const void*>(group.word(1).load()), &read, sizeof(read)};
      const bool gone = reader.Read(1, &piece, 1) == CrossMemoryReader::Outcome::kGone;
      verdict = gone ? heap->JobStatus().message() : "read " + std::to_string(read);
    }
    group.Meet();
    return verdict;
  });
  CHECK(group.Join(0) == "disk on fire");
  CHECK(group.Join(1) == "process 0 gave up: disk on fire; here: gate at 0");
  CHECK(group.Join(2) == "process 0 gave up: disk on fire");
}

}  // namespace
}  // namespace xla_shmem::shm
