// Which processes a deadline's error names, and which not.
#include "xla_patch/shm/late_processes.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/shm/gate_operation.h"
#include "tests/shm/test_heap.h"
#include "xla_patch/shm/progress_engine.h"

namespace xla_shmem::shm {
namespace {

using testing::GateOperation;
using testing::HeapOfProcesses;
using testing::Outcome;
using testing::ProcessGroup;
using testing::RandomJobKey;
using namespace std::chrono_literals;

constexpr size_t kBytes = 1 << 20;
const std::string kGaveUp = "gave up after the deadline of 0.8 s (XLA_SHMEM_DEADLINE)";

// The error of an operation that waits for PE `waits_for` and never finishes.
std::string WaitFor(Heap* heap, int waits_for, std::chrono::milliseconds deadline) {
  ProgressEngine engine(heap, 20us, deadline);
  std::atomic<uint64_t> never{0};
  Outcome outcome;
  engine.Submit(std::make_unique<GateOperation>(&never, waits_for),
                [&](const Status& status) { outcome.Set(status.message()); });
  return outcome.Get();
}

// Process 0 waits for process 1, which waits for process 2, which runs `last`. The error of process 0, which has the
// shortest deadline.
std::string EndOfChain(const std::function<void(Heap& heap)>& last) {
  ProcessGroup group(3);
  const JobKey key = RandomJobKey();
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 3, kBytes);
    if (rank == 2) {
      last(*heap);
      while (group.word(0) < 2) usleep(1000);
      return "";
    }
    const std::string error = WaitFor(heap.get(), rank + 1, rank == 0 ? 800ms : 20000ms);
    group.word(0).fetch_add(1);
    return error;
  });
  const std::string first = group.Join(0), second = group.Join(1);
  CHECK(second == "process 0 gave up: " + first + "; here: gate at 0");
  group.Signal(2, SIGKILL);
  group.Join(2);
  return first;
}

TEST_CASE("A process that is stopped is named, and one that waits for it is not") {
  CHECK(EndOfChain([](Heap&) { raise(SIGSTOP); }) == "gate at 0; " + kGaveUp + "; process 2 (PE 2) is stopped");
}

TEST_CASE("A process that comes to no collective is named, and one that waits for it is not") {
  const std::string late = "; process 2 (PE 2) is running, but in no collective";
  CHECK(EndOfChain([](Heap&) {}) == "gate at 0; " + kGaveUp + late);
  // Also after a collective that it has been through.
  CHECK(EndOfChain([](Heap& heap) {
          ProgressEngine engine(&heap, 20us, 20000ms);
          std::atomic<uint64_t> gate{0};
          Outcome outcome;
          engine.Submit(std::make_unique<GateOperation>(&gate, 0), [&](const Status&) { outcome.Set("done"); });
          usleep(250000);
          gate = 1;
          Ring(heap.OwnBell());
          outcome.Get();
        }) == "gate at 0; " + kGaveUp + late);
}

TEST_CASE("A process that waits, but no longer looks, is named") {
  CHECK(EndOfChain([](Heap& heap) { PublishWaits(heap, {0}, "all-reduce f"); }) ==
        "gate at 0; " + kGaveUp + "; process 2 (PE 2) waits in a collective, but its threads do not run");
}

TEST_CASE("A process that waits for the late one itself names it with the counters of its operation") {
  ProcessGroup group(2);
  const JobKey key = RandomJobKey();
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 2, kBytes);
    if (rank == 0) return WaitFor(heap.get(), 1, 800ms);
    raise(SIGSTOP);
    return "";
  });
  CHECK(group.Join(0) == "gate at 0, not PE 1; " + kGaveUp + "; process 1 (PE 1) is stopped");
  group.Signal(1, SIGKILL);
  group.Join(1);
}

TEST_CASE("Processes that wait for one another are all named, and the error says so") {
  ProcessGroup group(2);
  const JobKey key = RandomJobKey();
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 2, kBytes);
    return WaitFor(heap.get(), 1 - rank, rank == 0 ? 800ms : 20000ms);
  });
  CHECK(group.Join(0) == "gate at 0, not PE 1; " + kGaveUp +
                             "; each of these processes waits for another of them; process 1 (PE 1) is in gate at 0");
  group.Join(1);
}

TEST_CASE("PEs beyond those that the record has room for are left out") {
  const auto heap = testing::HeapOfOneProcess(2, kBytes);
  PublishWaits(*heap, {1, 1023, 1024, 5000}, "");
  const WaitRecord& record = heap->OwnHeader().waits;
  CHECK(record.pes[0] == 2);
  CHECK(record.pes[15] == uint64_t{1} << 63);
  CHECK(record.looked_ns != 0);
  PublishNoWaits(*heap);
  CHECK(record.looked_ns == 0);
}

}  // namespace
}  // namespace xla_shmem::shm
