// Which waits go on, which are told to the user, and which fail the job.
#include "xla_patch/shm/wait_watch.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/shm/gate_operation.h"
#include "tests/shm/test_heap.h"
#include "tests/types/value_of.h"
#include "xla_patch/shm/inquiry.h"
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
using Wait = WaitWatch::Wait;

constexpr size_t kBytes = 1 << 20;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Lines {
 public:
  WaitLimits Limits(std::chrono::nanoseconds late_after) {
    WaitLimits limits;
    limits.late_after = late_after;
    limits.say = [this](const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      all_ += line + "\n";
    };
    return limits;
  }
  std::string all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::string all_;
};

// Checks a wait of one operation at times that the test makes up.
class Watched {
 public:
  Watched(Heap* heap, WaitLimits limits, int waits_for = -1)
      : operation_(&gate_, waits_for), watch_(heap, std::move(limits)), wait_{&operation_, nullptr, now_} {
    static_cast<void>(watch_.Check(now_, {&wait_}));
  }

  // Looks every 100 ms for `time`, and returns the first error.
  Status Look(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += WaitWatch::kInterval) {
      now_ += WaitWatch::kInterval;
      if (Status status = watch_.Check(now_, {&wait_}); !status.ok()) return status;
    }
    return Status();
  }
  // This process does not run for `time`.
  Status BeAway(std::chrono::milliseconds time) {
    now_ += time;
    return watch_.Check(now_, {&wait_});
  }
  Wait& wait() { return wait_; }
  GateOperation& operation() { return operation_; }

 private:
  std::atomic<uint64_t> gate_{0};
  GateOperation operation_;
  WaitWatch::Clock::time_point now_ = WaitWatch::Clock::now();
  WaitWatch watch_;
  Wait wait_;
};

TEST_CASE("The deadline counts from the last progress") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  Watched watched(heap.get(), WaitLimits{1s});
  for (int i = 0; i < 20; ++i) {
    CHECK(watched.Look(800ms).ok());
    watched.wait().made_progress = true;
  }
  CHECK(watched.Look(900ms).ok());
  CHECK(Contains(watched.Look(400ms).message(), "gave up after the deadline of 1 s (XLA_SHMEM_DEADLINE)"));
}

TEST_CASE("A process that has not run itself has not waited, and looks again before it gives up") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  Watched watched(heap.get(), WaitLimits{1s});
  CHECK(watched.Look(500ms).ok());
  CHECK(watched.BeAway(3600s).ok());
  CHECK(watched.Look(200ms).ok());
  CHECK(watched.BeAway(3600s).ok());  // past the deadline, but only now it can see what has come
  CHECK_FALSE(watched.Look(100ms).ok());
}

TEST_CASE("Without a deadline a wait never ends, and lines come at growing distance") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  Lines lines;
  Watched watched(heap.get(), lines.Limits(60s));
  const auto count = [&] {
    const std::string all = lines.all();
    return std::count(all.begin(), all.end(), '\n');
  };
  CHECK(watched.Look(59s).ok());
  CHECK(count() == 0);
  CHECK(watched.Look(3s).ok());
  CHECK(count() == 1);
  CHECK(watched.Look(57s).ok());
  CHECK(count() == 1);
  CHECK(watched.Look(4s).ok());  // 2 minutes
  CHECK(count() == 2);
  CHECK(watched.Look(600s).ok());  // lines at 4 and 8 minutes
  CHECK(count() == 4);
  watched.wait().made_progress = true;
  CHECK(watched.Look(59s).ok());
  CHECK(count() == 4);
  CHECK(watched.Look(3s).ok());
  CHECK(count() == 5);
  CHECK(Contains(lines.all(), "gate at 0; no progress for 60 s; goes on waiting"));
}

TEST_CASE("Of the default backend it only tells: no deadline holds, and nobody is asked for another program") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  Lines lines;
  WaitLimits limits = lines.Limits(2s);
  limits.deadline = 1s;
  Watched watched(heap.get(), limits);
  watched.operation().of_default_backend = true;
  int searches = 0;
  watched.wait().find_fault = [&](bool) -> std::string {
    ++searches;
    return "process 1 is in another program";
  };
  CHECK(watched.Look(5s).ok());
  CHECK(searches == 0);
  CHECK(Contains(lines.all(), "gate at 0; no progress for 2 s; goes on waiting\n"));
  watched.operation().of_default_backend = false;
  CHECK(Contains(watched.Look(1s).message(), "gave up after the deadline of 1 s"));
}

TEST_CASE("A wait for a PE of another host does not say that it waits in a circle") {
  std::vector<std::unique_ptr<Segment>> segments(2);
  segments[0] = testing::ValueOf(Segment::Create(RandomJobKey(), 0, kPageBytes + kBytes));
  segments[0]->NoteAttached(1);
  const auto heap = testing::ValueOf(Heap::Create(std::move(segments), {0, 1}, /*own_process=*/0));
  Lines lines;
  Watched watched(heap.get(), lines.Limits(2s), 1);
  watched.operation().of_default_backend = true;
  CHECK(watched.Look(3s).ok());
  CHECK(lines.all() == "gate at 0, not PE 1; no progress for 2 s; no process of this host is late; goes on waiting\n");
}

TEST_CASE("A wait for a PE of this process says that XLA may have too few threads") {
  const auto heap = HeapOfOneProcess(2, kBytes);
  Lines lines;
  Watched late(heap.get(), lines.Limits(60s), 1);
  CHECK(late.Look(62s).ok());
  const std::string advice =
      "PE 1 is in this process: XLA may have too few threads for what runs at once; set NPROC=64";
  CHECK(Contains(lines.all(), advice));
  Watched past(heap.get(), WaitLimits{1s}, 1);
  CHECK(Contains(past.Look(2s).message(), advice));
}

TEST_CASE("Another program is looked for after a second, at growing distance, and is an error") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  Lines lines;
  Watched watched(heap.get(), lines.Limits(60s));
  std::vector<bool> calls;
  bool differs = false;
  watched.wait().find_fault = [&](bool is_late) -> std::string {
    calls.push_back(is_late);
    return differs ? "process 1 is in another program" : "";
  };
  CHECK(watched.Look(900ms).ok());
  CHECK(calls.empty());
  CHECK(watched.Look(65s).ok());
  // At 1, 2, 3, 4, 5, 6.2, 7.8, … s, at last every 4 s.
  CHECK(calls.size() > 16);
  CHECK(calls.size() < 26);
  CHECK(std::count(calls.begin(), calls.end(), true) >= 1);
  watched.wait().made_progress = true;
  differs = true;
  CHECK(watched.Look(2s).message() == "gate at 0; process 1 is in another program");
}

// What process 0 gets that waits for process 1, which does `body`.
std::string WaitForProcess(const std::function<void(ProcessGroup& group, Heap& heap)>& body,
                           std::chrono::milliseconds late_after, std::chrono::milliseconds go_on_after,
                           const std::function<void(ProcessGroup& group)>& meanwhile) {
  ProcessGroup group(2);
  const JobKey key = RandomJobKey();
  group.Start([&](int rank) -> std::string {
    const auto heap = HeapOfProcesses(group, key, rank, 2, kBytes);
    if (rank == 1) {
      body(group, *heap);
      return "";
    }
    Lines lines;
    ProgressEngine engine(heap.get(), 20us, lines.Limits(late_after));
    std::atomic<uint64_t> gate{0};
    Outcome outcome;
    engine.Submit(std::make_unique<GateOperation>(&gate, 1),
                  [&](const Status& status) { outcome.Set(status.ok() ? "done" : status.message()); });
    std::thread opener([&] {
      std::this_thread::sleep_for(go_on_after);
      gate = 1;
      Ring(heap->OwnBell());
    });
    const std::string end = outcome.Get();
    opener.join();
    group.word(0) = 1;
    return end + " | " + lines.all();
  });
  if (meanwhile) meanwhile(group);
  const std::string result = group.Join(0);
  group.Signal(1, SIGKILL);
  group.Join(1);
  return result;
}

void StayAlive(ProcessGroup& group, Heap& /*heap*/) {
  while (group.word(0) == 0) usleep(1000);
}

TEST_CASE("A process that is alive is late: one line, and the wait goes on") {
  CHECK(WaitForProcess(StayAlive, 300ms, 1600ms, {}) ==
        "done | gate at 0, not PE 1; no progress for 1 s; process 1 (PE 1) is running, but in no collective; goes on "
        "waiting; XLA_SHMEM_DEADLINE would set a limit\n");
}

TEST_CASE("A late process says what it does") {
  const auto says = [](ProcessGroup& group, Heap& heap) {
    while (group.word(0) == 0) {
      const uint32_t question = AwaitQuestion(heap.OwnHeader(), 0);
      Answer(heap.OwnHeader(), question, "runs Python at train.py:7 in load");
      usleep(200000);
    }
  };
  CHECK(Contains(WaitForProcess(says, 300ms, 1200ms, {}),
                 "process 1 (PE 1) is running, but in no collective: it runs Python at train.py:7 in load; goes on"));
}

TEST_CASE("A process at the end of its program is an error at once") {
  const auto ends = [](ProcessGroup& group, Heap& heap) {
    heap.OwnHeader().at_end.store(1, std::memory_order_release);
    StayAlive(group, heap);
  };
  CHECK(WaitForProcess(ends, 60s, 800ms, {}) ==
        "gate at 0, not PE 1; process 1 (PE 1) has come to the end of its program | ");
}

TEST_CASE("A process that is stopped for some seconds is waited for, and one that stays stopped is an error") {
  const auto stops = [](ProcessGroup& group, Heap& heap) {
    raise(SIGSTOP);
    StayAlive(group, heap);
  };
  const auto go_on = [](ProcessGroup& group) {
    usleep(700000);
    group.Signal(1, SIGCONT);
  };
  CHECK(WaitForProcess(stops, 3s, 1500ms, go_on) == "done | ");
  CHECK(Contains(WaitForProcess(stops, 1s, 2500ms, {}), "; process 1 (PE 1) has been stopped for 1 s | "));
}

TEST_CASE("Answers belong to questions, and a text in shared memory is read whole") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  SegmentHeader& header = heap->OwnHeader();
  const uint32_t first = Ask(header);
  CHECK(AnswerTo(header, first) == "");
  Answer(header, first, "sleeps");
  CHECK(AnswerTo(header, first) == "sleeps");
  const uint32_t second = Ask(header);
  CHECK(AnswerTo(header, second) == "");
  Answer(header, second, std::string(1000, 'x'));
  CHECK(AnswerTo(header, first) == std::string(SharedText::kBytes - 1, 'x'));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) Answer(header, second, std::string(200, i % 2 == 0 ? 'a' : 'b'));
  });
  int read = 0;
  while (read < 1000) {
    const std::string text = AnswerTo(header, second);
    if (text.empty() || text[0] == 'x') continue;
    ++read;
    if (text != std::string(200, text[0])) FAIL_CHECK("a torn text: " << text);
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace xla_shmem::shm
