#include "tests/simulator/simulated_job.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/simulator/shared_memory.h"
#include "tests/thunks/cpu/random_transfer.h"
#include "xla_patch/runtime/execution_counter.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/inquiry.h"
#include "xla_patch/shm/late_processes.h"
#include "xla_patch/shm/progress_engine.h"
#include "xla_patch/thunks/cpu/grant_board.h"
#include "xla_patch/thunks/cpu/local_pes.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/slot_pool.h"

namespace xla_shmem::simulator {
namespace {

using testing::DrawTransfer;
using testing::Transfer;

Scheduler& TheScheduler() { return Scheduler::Get(); }

// All processes meet here before they map each other's segments: in a real job JAX's store does that.
class Meeting {
 public:
  // `complete` is called when all are there.
  Meeting(int processes, std::function<void()> complete) : missing_(processes), complete_(std::move(complete)) {}
  void Meet() {
    const OwnCode own_code;
    MemoryModel::Release(&clock_);
    if (--missing_ == 0) {
      complete_();
      TheScheduler().Wake(this);
    } else {
      TheScheduler().Block(this);
    }
    MemoryModel::Acquire(clock_);
  }

 private:
  int missing_;
  const std::function<void()> complete_;
  VectorClock clock_;
};

size_t CountBlocks(SlotPool* pool, size_t bytes) {
  std::vector<char*> blocks;
  while (char* block = pool->Take(bytes)) blocks.push_back(block);
  for (char* block : blocks) pool->Return(block, bytes);
  return blocks.size();
}

// A thread of the user's, which the system does not refuse.
std::thread StartThread(const std::function<void()>& body) {
  while (true) {
    try {
      return std::thread(body);
    } catch (const std::system_error&) {
    }
  }
}

class SimulatedJob {
 public:
  explicit SimulatedJob(const Plan& plan)
      : plan_(plan), meeting_(plan.processes(), [this] { PlanFaults(); }), end_(plan.processes(), [] {}) {}

  // All processes, ready to run.
  void Start();
  // After the run.
  Report Finish() const;

 private:
  // What a process has; its threads share it.
  struct Member {
    int process;
    std::unique_ptr<shm::Heap> heap;
    std::unique_ptr<LocalPes> pes;
    std::unique_ptr<shm::ProgressEngine> engine;
    ExecutionCounter executions;
  };

  void ProcessMain(Process* process);
  void RunProcess(Process* process);
  void PlanFaults();
  std::vector<uint64_t> DrawOperations() const;
  size_t HeapBytes() const;
  std::unique_ptr<Transfer> Draw(Random& random, MessageKey key, int pe) const;
  void RunPe(Member& member, int pe);
  // From here on this process knows what the others call its operations.
  void PairCopies(Member& member) const;
  // `pending`: operations of this PE that have not ended.
  void Begin(Member& member, int pe, std::unique_ptr<Transfer> transfer, int* pending);
  void Ended(const Member& member, std::unique_ptr<Transfer> transfer, const Status& status, int* pending);
  // With Plan::verbose.
  template <typename Text>
  void Say(const Text& text) const {
    if (!plan_.verbose) return;
    const OwnCode own_code;
    TheScheduler().SetLooking(true);
    fprintf(stderr, "%.6f process %d, %s: %s\n", static_cast<double>(TheScheduler().now()) * 1e-9,
            Scheduler::current()->process->number, Scheduler::current()->name.c_str(), text().c_str());
    TheScheduler().SetLooking(false);
  }
  void CheckError(const Member& member, const std::string& error) const;
  // A line that a process prints about those that are late.
  void CheckLine(const Member& member, const std::string& line);
  void CheckLines() const;
  void AnswerQuestions(Member& member, const bool* stop) const;
  void CheckAllFree(const Member& member) const;

  const Plan plan_;
  Meeting meeting_, end_;
  std::vector<Process*> processes_;
  std::vector<uint64_t> operations_;  // ids, round by round
  int64_t met_ = 0;                   // when all processes had met
  int64_t ended_ = 0;                 // when the last process exited
  bool somebody_waits_ = false;       // for the process that is late
  std::vector<int> lines_;            // about late processes, by the process that prints them
  Report report_;
};

size_t SimulatedJob::HeapBytes() const {
  const int n_pes = plan_.n_pes();
  const size_t eager = plan_.ring_only ? 256 : 8 << 10;
  const size_t bytes =
      Mailboxes::Bytes(eager, n_pes) + GrantBoard::Bytes(n_pes) + plan_.arena_bytes + plan_.reserve_bytes;
  return (bytes + (256 << 10)) / shm::kPageBytes * shm::kPageBytes;
}

void SimulatedJob::RunProcess(Process* process) {
  Scheduler& scheduler = TheScheduler();
  if (const int64_t start = plan_.starts_ns[static_cast<size_t>(process->number)]; start > 0) {
    scheduler.Block(process, scheduler.now() + start);
  }
  Member member;
  member.process = process->number;
  const shm::JobKey key{{plan_.seed, 42}};
  const auto pes_here = std::count(plan_.process_of_pe.begin(), plan_.process_of_pe.end(), process->number);
  std::vector<std::unique_ptr<shm::Segment>> segments(static_cast<size_t>(plan_.processes()));
  segments[static_cast<size_t>(process->number)] =
      *shm::Segment::Create(key, process->number, shm::kPageBytes + static_cast<size_t>(pes_here) * HeapBytes());
  meeting_.Meet();
  for (int other = 0; other < plan_.processes(); ++other) {
    if (other == process->number) continue;
    Result<std::unique_ptr<shm::Segment>> segment = shm::Segment::Attach(key, other);
    if (!segment.ok()) scheduler.Fail(segment.status().message());
    segments[static_cast<size_t>(other)] = *std::move(segment);
  }
  Result<std::unique_ptr<shm::Heap>> heap =
      shm::Heap::Create(std::move(segments), plan_.process_of_pe, process->number);
  if (!heap.ok()) scheduler.Fail(heap.status().message());
  member.heap = *std::move(heap);
  Result<std::unique_ptr<LocalPes>> pes =
      LocalPes::Create({plan_.single_copy, plan_.arena_bytes, plan_.reserve_bytes, plan_.llc_share, plan_.in_process},
                       member.heap.get());
  if (!pes.ok()) scheduler.Fail(pes.status().message());
  member.pes = *std::move(pes);
  shm::WaitLimits limits{plan_.deadline, plan_.late_after};
  limits.say = [&](const std::string& line) { CheckLine(member, line); };
  member.engine = std::make_unique<shm::ProgressEngine>(member.heap.get(), plan_.spin, std::move(limits));
  std::vector<std::thread> threads;
  bool stop = false;
  std::thread answering;
  if (plan_.answers) answering = StartThread([&] { AnswerQuestions(member, &stop); });
  if (plan_.ProcessWith(Fault::Kind::kEnds) == process->number) {
    shm::PublishAtEnd(member.heap->OwnHeader());
  } else {
    for (const int pe : member.heap->local_pes()) threads.push_back(StartThread([&, pe] { RunPe(member, pe); }));
  }
  for (std::thread& thread : threads) thread.join();
  if (plan_.answers) {
    stop = true;
    shm::StopAwaiting(member.heap->OwnHeader());
    answering.join();
  }
  if (plan_.must_succeed()) {
    end_.Meet();
    CheckAllFree(member);
  } else if (plan_.linger_ns > 0) {
    const OwnCode own_code;
    scheduler.Block(&member, scheduler.now() + plan_.linger_ns);
  }
}

void SimulatedJob::ProcessMain(Process* process) {
  RunProcess(process);
  const OwnCode own_code;
  ended_ = TheScheduler().now();
  TheScheduler().Kill(process);  // it exits
}

std::unique_ptr<Transfer> SimulatedJob::Draw(Random& random, MessageKey key, int pe) const {
  const int n_pes = plan_.n_pes();
  if (!plan_.ring_only) return DrawTransfer(random, key, pe, n_pes, plan_.sizes);
  const size_t bytes = 1 + random() % plan_.sizes.largest;
  if (random() % 2 == 0) {
    constexpr int kMembers = 8;
    std::vector<int> group;
    for (int member = pe / kMembers * kMembers; member < std::min(n_pes, (pe / kMembers + 1) * kMembers); ++member) {
      group.push_back(member);
    }
    testing::Reduction reduction{ReductionKind::kSum, group, {ElementType::kF32}, {bytes / 4}};
    return std::make_unique<testing::AllReduceTransfer>(key, pe, reduction, testing::Placement::kApart);
  }
  // A PermuteTransfer looks through the targets of all PEs.
  std::vector<int> target_of(static_cast<size_t>(n_pes), -1);
  target_of[static_cast<size_t>(pe)] = (pe + 1) % n_pes;
  target_of[static_cast<size_t>((pe + n_pes - 1) % n_pes)] = pe;
  return std::make_unique<testing::PermuteTransfer>(key, pe, target_of, std::vector<size_t>{bytes},
                                                    testing::Placement::kApart);
}

void SimulatedJob::AnswerQuestions(Member& member, const bool* stop) const {
  uint32_t last = 0;
  while (!*stop) {
    const uint32_t question = shm::AwaitQuestion(member.heap->OwnHeader(), last);
    if (question != last) shm::Answer(member.heap->OwnHeader(), question, "is simulated");
    last = question;
  }
}

// Starts all operations of a round in an order of its own, on several threads, and waits for them, as XLA:CPU does.
void SimulatedJob::RunPe(Member& member, int pe) {
  Random shared(plan_.seed * 31 + 7), own(plan_.seed * 1000 + static_cast<uint64_t>(pe));
  for (const Fault& fault : plan_.faults) {
    if (fault.kind != Fault::Kind::kLate || fault.process != member.process) continue;
    const OwnCode own_code;
    TheScheduler().Block(&member, TheScheduler().now() + fault.for_ns);
  }
  const uint64_t program = plan_.ProcessWith(Fault::Kind::kOther) == member.process ? uint64_t{1} << 60 : 0;
  for (int round = 0; round < plan_.rounds; ++round) {
    std::vector<std::unique_ptr<Transfer>> transfers;
    for (int i = 0; i < plan_.operations; ++i) {
      const uint64_t of_all = operations_[static_cast<size_t>(round * plan_.operations + i)] | program;
      const uint64_t operation = plan_.copies ? testing::InCopy(of_all, member.process) : of_all;
      const auto counted = member.executions.Begin(operation, pe, /*executable=*/1, /*run_id=*/round);
      transfers.push_back(Draw(shared, {operation, counted->number}, pe));
    }
    std::shuffle(transfers.begin(), transfers.end(), own);
    int pending = plan_.operations;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < plan_.threads; ++thread) {
      threads.push_back(StartThread([&, thread] {
        for (size_t i = static_cast<size_t>(thread); i < transfers.size(); i += static_cast<size_t>(plan_.threads)) {
          Begin(member, pe, std::move(transfers[i]), &pending);
        }
      }));
    }
    for (std::thread& thread : threads) thread.join();
    const OwnCode own_code;
    while (pending > 0) TheScheduler().Block(&pending);
  }
}

// As observe::Observer::FindMismatch does it.
void SimulatedJob::PairCopies(Member& member) const {
  std::vector<PeerOperation> ids;
  for (int pe = 0; pe < plan_.n_pes(); ++pe) {
    const int process = plan_.process_of_pe[static_cast<size_t>(pe)];
    if (process == member.process) continue;
    for (const uint64_t operation : operations_) {
      ids.push_back({pe, testing::InCopy(operation, member.process), testing::InCopy(operation, process)});
    }
  }
  member.pes->peer_operations().Add(ids);
}

// As bindings/ffi/cpu/handler.h does it.
void SimulatedJob::Begin(Member& member, int pe, std::unique_ptr<Transfer> transfer, int* pending) {
  std::unique_ptr<Operation> operation = transfer->Begin(*member.pes->context(pe));
  Say([&] { return "begins " + operation->Describe({}); });
  const Result<bool> finished = member.engine->TryInline(*operation);
  if (!finished.ok() || *finished) {
    Say([&] { return "ended at once: " + operation->Describe({}); });
    operation.reset();
    Ended(member, std::move(transfer), finished.status(), pending);
    return;
  }
  for (const int awaited : plan_.Has(Fault::Kind::kLate) ? operation->WaitsFor() : std::set<int>()) {
    somebody_waits_ |= plan_.process_of_pe[static_cast<size_t>(awaited)] == plan_.ProcessWith(Fault::Kind::kLate);
  }
  auto* const left = transfer.release();
  member.engine->Submit(
      std::move(operation),
      [=, &member](const Status& status) { Ended(member, std::unique_ptr<Transfer>(left), status, pending); },
      [this, &member](bool) -> std::string {
        if (plan_.copies) PairCopies(member);
        const int other = plan_.ProcessWith(Fault::Kind::kOther);
        return other < 0 ? "" : "process " + std::to_string(other) + " (PE 0) is in another program";
      });
}

// XLA may reuse the buffers from here on: they are gone when this returns.
void SimulatedJob::Ended(const Member& member, std::unique_ptr<Transfer> transfer, const Status& status, int* pending) {
  Say([&] { return "ended: " + (status.ok() ? "right so far" : status.message()); });
  if (status.ok()) {
    ++report_.finished;
    const std::string wrong = transfer->Verdict();
    if (!wrong.empty()) TheScheduler().Fail("wrong result: " + wrong);
  } else {
    ++report_.failed;
    CheckError(member, status.message());
  }
  transfer.reset();
  const OwnCode own_code;
  if (--*pending == 0) TheScheduler().Wake(pending);
}

void SimulatedJob::CheckError(const Member& member, const std::string& error) const {
  const auto says = [&](const std::string& words) { return error.find(words) != std::string::npos; };
  const auto fail = [&](const std::string& why) {
    TheScheduler().Fail(why + ": process " + std::to_string(member.process) + " failed with: " + error);
  };
  if (plan_.must_succeed()) fail("a run without a fault failed");
  if (const int ended = plan_.ProcessWith(Fault::Kind::kEnds); ended >= 0) {
    if (!says("process " + std::to_string(ended) + " (PE ") || !says(") has come to the end of its program")) {
      fail("an error does not name the process at its end");
    }
    return;
  }
  if (plan_.Has(Fault::Kind::kOther)) {
    if (!says("is in another program")) fail("an error does not say that a process is in another program");
    return;
  }
  if (plan_.KnowsLateness() && plan_.Has(Fault::Kind::kStopped)) {
    if (!says("process " + std::to_string(plan_.ProcessWith(Fault::Kind::kStopped)) + " (PE ") ||
        !says(") has been stopped for 1 s")) {
      fail("an error does not name the process that is stopped for good");
    }
    return;
  }
  if (plan_.refuses_threads() && says("cannot start a thread")) return;
  bool names_killed = false;
  for (int process = 0; process < plan_.processes(); ++process) {
    if (!says("process " + std::to_string(process) + " (PE ") || !says(") has exited")) continue;
    names_killed |= plan_.IsKilled(process);
    if (!plan_.IsKilled(process) && !plan_.refuses_threads()) fail("an error names a process that did not die");
  }
  if (names_killed) return;
  if (!says("gave up after the deadline")) fail("an error names neither a process that died nor a deadline");
  if (const int stopped = plan_.OnlyStopped(); stopped >= 0) {
    for (int process = 0; process < plan_.processes(); ++process) {
      const bool named = says("process " + std::to_string(process) + " (PE ");
      if (named != (process == stopped)) fail("an error does not name the stopped process alone");
    }
  }
  const bool in_time = !plan_.AnyKilled() && !plan_.scarce && plan_.scheduler.pause_ns == 0;
  if (in_time && plan_.LongestStop() + 150'000'000 < plan_.deadline.count()) {
    fail("a stop of " + std::to_string(plan_.LongestStop() / 1'000'000) + " ms failed a job before its deadline");
  }
}

void SimulatedJob::CheckLine(const Member& member, const std::string& line) {
  Say([&] { return "says: " + line; });
  ++lines_[static_cast<size_t>(member.process)];
  if (!plan_.KnowsLateness()) return;
  const int late = plan_.ProcessWith(Fault::Kind::kLate);
  const auto fail = [&](const std::string& why) { TheScheduler().Fail(why + ": " + line); };
  for (int process = 0; process < plan_.processes(); ++process) {
    const bool is_named = line.find("process " + std::to_string(process) + " (PE ") != std::string::npos;
    if (process != late && late >= 0 && is_named) fail("a line names a process that is not late");
  }
  if (plan_.answers && line.find("is running, but in no collective") != std::string::npos &&
      line.find(": it is simulated") == std::string::npos) {
    fail("a line does not say what the late process does");
  }
}

// Each wait of at least `late_after` is told, at growing distance; a shorter one is not.
void SimulatedJob::CheckLines() const {
  const int late = plan_.ProcessWith(Fault::Kind::kLate);
  if (!plan_.KnowsLateness() || late < 0 || !plan_.answers) return;
  const int64_t time = plan_.faults[0].for_ns, after = plan_.late_after.count(), slack = 500'000'000;
  int most = 0, any = 0;
  for (int64_t at = after; at < time + slack; at *= 2) ++most;
  for (const int lines : lines_) {
    any += lines;
    if (lines > most) {
      TheScheduler().Fail(std::to_string(lines) + " lines in " + std::to_string(time / 1'000'000) + " ms");
    }
  }
  if (lines_[static_cast<size_t>(late)] > 0) TheScheduler().Fail("the late process itself prints a line");
  if (somebody_waits_ && time > after + slack && any == 0) TheScheduler().Fail("nobody says that a process is late");
}

void SimulatedJob::CheckAllFree(const Member& member) const {
  for (const int pe : member.heap->local_pes()) {
    const PeContext& context = *member.pes->context(pe);
    constexpr size_t kBlock = 4096;
    char* const anywhere = member.heap->base(pe);  // a pool does not touch its memory
    SlotPool slots(anywhere, plan_.arena_bytes), reserve(anywhere, plan_.reserve_bytes);
    if (CountBlocks(context.slots, kBlock) != CountBlocks(&slots, kBlock) ||
        CountBlocks(context.reserve, kBlock) != CountBlocks(&reserve, kBlock)) {
      TheScheduler().Fail("PE " + std::to_string(pe) + " has lost slots");
    }
    if (plan_.ring_only) continue;
    // The board lies first in a heap, and then the mailboxes (LocalPes::Create).
    const auto* const records = reinterpret_cast<const GrantRecord*>(member.heap->base(pe));
    for (size_t i = 0; i < GrantBoard::Bytes(plan_.n_pes()) / sizeof(GrantRecord); ++i) {
      if (records[i].state != 0) TheScheduler().Fail("PE " + std::to_string(pe) + " still has a grant");
    }
    for (int receiver = 0; receiver < plan_.n_pes(); ++receiver) {
      int free = 0;
      for (uint64_t operation = 0; operation < 4096 && free < 64; ++operation) {
        free += context.mailboxes->Claim(receiver, {operation, 0}).entry != nullptr;
      }
      if (free != 64) {
        TheScheduler().Fail("PE " + std::to_string(pe) + " finds " + std::to_string(free) +
                            " of 64 mailboxes free at PE " + std::to_string(receiver));
      }
    }
  }
}

// Ids are hashes. Crowded ones begin their search for a place at the same mailbox and the same record.
std::vector<uint64_t> SimulatedJob::DrawOperations() const {
  std::vector<uint64_t> operations;
  const auto count = static_cast<size_t>(plan_.rounds * plan_.operations);
  const auto homes = [](uint64_t id) { return std::make_pair(Mailboxes::Home({id, 0}), GrantBoard::Home({id, 0})); };
  const uint64_t first = plan_.seed << 20;
  if (plan_.crowded) {
    for (uint64_t id = first; operations.size() < count; ++id) {
      if (operations.empty() || homes(id) == homes(first)) operations.push_back(id);
    }
  } else {
    // The same operations in each round.
    for (size_t i = 0; i < count; ++i) operations.push_back(first + i % static_cast<size_t>(plan_.operations));
  }
  return operations;
}

void SimulatedJob::Start() {
  operations_ = DrawOperations();
  lines_.assign(static_cast<size_t>(plan_.processes()), 0);
  for (int process = 0; process < plan_.processes(); ++process) {
    processes_.push_back(TheScheduler().AddProcess(plan_.speeds[static_cast<size_t>(process)]));
    TheScheduler().Spawn(processes_.back(), "main", [this, owner = processes_.back()] { ProcessMain(owner); });
  }
}

// Before all processes have met, a missing one is the business of JAX's store.
void SimulatedJob::PlanFaults() {
  met_ = TheScheduler().now();
  for (const Fault& fault : plan_.faults) {
    if (fault.kind != Fault::Kind::kKilled && fault.kind != Fault::Kind::kStopped) continue;
    TheScheduler().At(met_ + fault.at_ns, [this, fault] {
      Process* const process = processes_[static_cast<size_t>(fault.process)];
      if (process->dead) return;
      if (fault.kind == Fault::Kind::kKilled) {
        TheScheduler().Kill(process);
      } else {
        TheScheduler().Stop(process, met_ + fault.at_ns + fault.for_ns);
      }
    });
    if (fault.for_ns != kForEver) continue;
    // When the others must have given up: the run ends when all processes have.
    TheScheduler().At(met_ + fault.at_ns + 2'500'000'000,
                      [this, fault] { TheScheduler().Kill(processes_[static_cast<size_t>(fault.process)]); });
  }
}

Report SimulatedJob::Finish() const {
  Scheduler& scheduler = TheScheduler();
  // A process that stops may begin its last operation when it goes on.
  const int64_t limit = plan_.within_ns > 0 ? plan_.LastFault() + plan_.within_ns + plan_.linger_ns
                                            : plan_.LastFault() + plan_.LongestStop() + plan_.linger_ns +
                                                  2 * plan_.deadline.count() + 3'000'000'000;
  CheckLines();
  const int64_t lateness = plan_.Has(Fault::Kind::kLate) ? plan_.faults[0].for_ns : 0;
  if (somebody_waits_ && !plan_.must_succeed() && lateness > plan_.deadline.count() && report_.failed == 0) {
    scheduler.Fail("nobody gave up after the deadline");
  }
  if (!plan_.faults.empty() && ended_ - met_ > limit) {
    scheduler.Fail("the job ended " + std::to_string((ended_ - met_) / 1'000'000) + " ms after its begin");
  }
  Report report = report_;
  report.steps = scheduler.steps();
  report.trace = scheduler.trace();
  return report;
}

}  // namespace

Report RunPlan(const Plan& plan) {
  Scheduler::Get().Configure(plan.scheduler);
  MemoryModel::Get().Configure(plan.memory);
  System() = plan.system;
  SharedMemory::Get().CatchBadAccesses();
  SimulatedJob job(plan);
  job.Start();
  Scheduler::Get().Run();
  return job.Finish();
}

}  // namespace xla_shmem::simulator
