#include "tests/simulator/simulated_job.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/simulator/job_checks.h"
#include "tests/simulator/meeting.h"
#include "tests/simulator/shared_memory.h"
#include "tests/simulator/simulated_programs.h"
#include "tests/thunks/cpu/traffic.h"
#include "xla_patch/runtime/execution_counter.h"
#include "xla_patch/runtime/observe/observer.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/inquiry.h"
#include "xla_patch/shm/late_processes.h"
#include "xla_patch/shm/progress_engine.h"
#include "xla_patch/thunks/cpu/grant_board.h"
#include "xla_patch/thunks/cpu/local_pes.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/protocol_choice.h"

namespace xla_shmem::simulator {
namespace {

using testing::Transfer;

Scheduler& TheScheduler() { return Scheduler::Get(); }

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
      : plan_(plan),
        programs_(plan_),
        checks_(plan_),
        foreign_(static_cast<size_t>(plan.rounds), ForeignCollective(plan.n_pes())),
        meeting_(plan.processes(), [this] { PlanFaults(); }),
        end_(plan.processes(), [] {}) {}

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
    ExecutionCounter executions;
    observe::Observer observer;
    std::unique_ptr<shm::ProgressEngine> engine;
  };
  // A call of an operation on a PE.
  struct Call {
    int pe;
    int operation;  // of its round
    uint64_t execution;
    std::unique_ptr<Transfer> transfer;
  };

  void ProcessMain(Process* process);
  void RunProcess(Process* process);
  void PlanFaults();
  size_t HeapBytes() const;
  void StartObserver(Member& member) const;
  void RunPe(Member& member, int pe);
  void Load(Member& member, int round) const;
  void RunRound(Member& member, int pe, int round, std::vector<Call>* calls);
  // This process is late in a round, if the plan says so.
  void ComeLate(const Member& member, int round);
  // False if the collective of the default backend has failed.
  bool RunForeign(Member& member, int pe, int round);
  // `pending`: operations of this PE that have not ended.
  void Begin(Member& member, int round, Call call, int* pending);
  void Ended(Member& member, const observe::Observer::Span& span, std::unique_ptr<Transfer> transfer,
             const Status& status, int* pending);
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
  void AnswerQuestions(Member& member, const bool* stop) const;

  const Plan plan_;
  const SimulatedPrograms programs_;
  JobChecks checks_;
  std::vector<ForeignCollective> foreign_;  // by round
  Meeting meeting_, end_;
  std::vector<Process*> processes_;
  int64_t met_ = 0;    // when all processes had met
  int64_t ended_ = 0;  // when the last process exited
  Report report_;
};

size_t SimulatedJob::HeapBytes() const {
  const int n_pes = plan_.n_pes();
  const size_t eager = n_pes > 64 ? 256 : 8 << 10;
  const size_t bytes = Mailboxes::Bytes(eager, n_pes) + ProtocolChoice::Bytes() + GrantBoard::Bytes(n_pes) +
                       plan_.arena_bytes + plan_.reserve_bytes;
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
  limits.say = [&](const std::string& line) {
    Say([&] { return "says: " + line; });
    checks_.CheckLine(member.process, line);
  };
  member.engine = std::make_unique<shm::ProgressEngine>(member.heap.get(), plan_.spin, std::move(limits));
  StartObserver(member);
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
  if (plan_.leaves_early) return;
  if (plan_.must_succeed() || plan_.Has(Fault::Kind::kOther)) shm::PublishAtEnd(member.heap->OwnHeader());
  if (plan_.must_succeed()) {
    end_.Meet();
    checks_.CheckAllFree(*member.heap, *member.pes);
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

void SimulatedJob::AnswerQuestions(Member& member, const bool* stop) const {
  uint32_t last = 0;
  while (!*stop) {
    const uint32_t question = shm::AwaitQuestion(member.heap->OwnHeader(), last);
    if (question != last) shm::Answer(member.heap->OwnHeader(), question, "is simulated");
    last = question;
  }
}

// As runtime/runtime.cc does it. Thousands of processes with records would have more mappings than Linux allows one.
void SimulatedJob::StartObserver(Member& member) const {
  if (!plan_.records()) return;
  std::vector<int> processes(static_cast<size_t>(plan_.processes()));
  std::iota(processes.begin(), processes.end(), 0);
  observe::ObserverOptions options;
  options.record_directory = plan_.record_directory;
  for (const std::string& warning :
       member.observer.Start(options, member.process, processes, member.heap->local_pes())) {
    TheScheduler().Fail(warning);
  }
  member.observer.SetPair(
      [&member](const std::vector<PeerOperation>& operations) { member.pes->peer_operations().Add(operations); });
}

void SimulatedJob::RunPe(Member& member, int pe) {
  Random shared(plan_.seed * 31 + 7), own(plan_.seed * 1000 + static_cast<uint64_t>(pe));
  std::vector<std::vector<Call>> calls(static_cast<size_t>(plan_.rounds));
  std::vector<std::thread> at_once;
  for (int round = 0; round < plan_.rounds; ++round) {
    if (!plan_.programs_at_once) ComeLate(member, round);
    std::vector<Call>& of_round = calls[static_cast<size_t>(round)];
    for (int i = 0; i < plan_.operations; ++i) {
      const uint64_t operation = programs_.IdOf(member.process, round, i);
      const auto counted = member.executions.Begin(operation, pe, /*executable=*/1, /*run_id=*/round);
      of_round.push_back({pe, i, counted->number, programs_.Draw(shared, {operation, counted->number}, pe)});
    }
    std::shuffle(of_round.begin(), of_round.end(), own);
    if (plan_.programs_at_once) {
      at_once.push_back(StartThread([this, &member, pe, round, of_thread = &of_round] {
        ComeLate(member, round);
        RunRound(member, pe, round, of_thread);
      }));
      continue;
    }
    if (plan_.foreign && !RunForeign(member, pe, round)) return;
    RunRound(member, pe, round, &of_round);
  }
  for (std::thread& thread : at_once) thread.join();
}

// Records the program's collectives one by one: meanwhile others may find the record of half a program.
void SimulatedJob::Load(Member& member, int round) const {
  if (!plan_.records()) return;
  for (int i = 0; i < plan_.operations; ++i) {
    if (i > 0 && plan_.load_ns > 0) {
      const OwnCode own_code;
      Scheduler& scheduler = TheScheduler();
      scheduler.Block(&plan_, scheduler.now() + 1 + static_cast<int64_t>(scheduler.Below(plan_.load_ns)));
    }
    member.observer.AddSite(programs_.SiteOf(member.process, round, i));
  }
}

// Starts all operations of a round in an order of its own, on several threads, and waits for them, as XLA:CPU does.
void SimulatedJob::RunRound(Member& member, int pe, int round, std::vector<Call>* calls) {
  Load(member, round);
  int pending = plan_.operations;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < plan_.threads; ++thread) {
    threads.push_back(StartThread([&, thread] {
      for (size_t i = static_cast<size_t>(thread); i < calls->size(); i += static_cast<size_t>(plan_.threads)) {
        Begin(member, round, std::move((*calls)[i]), &pending);
      }
    }));
  }
  for (std::thread& thread : threads) thread.join();
  const OwnCode own_code;
  while (pending > 0) TheScheduler().Block(&pending);
}

void SimulatedJob::ComeLate(const Member& member, int round) {
  const OwnCode own_code;
  Scheduler& scheduler = TheScheduler();
  for (const Fault& fault : plan_.faults) {
    if (fault.kind != Fault::Kind::kLate || fault.process != member.process || fault.round != round) continue;
    checks_.AddLateness(round, member.process);
    scheduler.Block(&fault, scheduler.now() + fault.for_ns);
  }
}

bool SimulatedJob::RunForeign(Member& member, int pe, int round) {
  constexpr int64_t kGivesUpAfter = 6'000'000'000;
  ForeignCollective& collective = foreign_[static_cast<size_t>(round)];
  std::unique_ptr<Operation> operation = collective.Begin(pe, TheScheduler().now() + kGivesUpAfter);
  checks_.AddWait(round, operation->WaitsFor());
  bool is_over = false;
  member.engine->Submit(std::move(operation), [&](const Status& status) {
    if (!status.ok()) TheScheduler().Fail("a collective of the default backend failed with: " + status.message());
    const OwnCode own_code;
    is_over = true;
    TheScheduler().Wake(&is_over);
  });
  const OwnCode own_code;
  while (!is_over) TheScheduler().Block(&is_over);
  return collective.all_came();
}

// As bindings/ffi/cpu/handler.h does it.
void SimulatedJob::Begin(Member& member, int round, Call call, int* pending) {
  std::unique_ptr<Operation> operation = call.transfer->Begin(*member.pes->context(call.pe));
  Say([&] { return "begins " + operation->Describe({}); });
  observe::Observer::Span span;
  if (plan_.records()) {
    const observe::Site site = programs_.SiteOf(member.process, round, call.operation);
    span = member.observer.Begin(call.pe, member.observer.FindSite(site.operation, site.name), call.execution, 64);
  }
  const Result<bool> finished = member.engine->TryInline(*operation);
  if (!finished.ok() || *finished) {
    Say([&] { return "ended at once: " + operation->Describe({}); });
    operation.reset();
    Ended(member, span, std::move(call.transfer), finished.status(), pending);
    return;
  }
  member.observer.MarkWaiting(span);
  if (plan_.Has(Fault::Kind::kLate)) checks_.AddWait(round, operation->WaitsFor());
  auto* const left = call.transfer.release();
  member.engine->Submit(
      std::move(operation),
      [=, &member](const Status& status) { Ended(member, span, std::unique_ptr<Transfer>(left), status, pending); },
      [=, &member](bool is_late) { return member.observer.FindMismatch(span, is_late); });
}

// XLA may reuse the buffers from here on: they are gone when this returns.
void SimulatedJob::Ended(Member& member, const observe::Observer::Span& span, std::unique_ptr<Transfer> transfer,
                         const Status& status, int* pending) {
  Say([&] { return "ended: " + (status.ok() ? "right so far" : status.message()); });
  if (status.ok()) {
    ++report_.finished;
    member.observer.End(span, std::nullopt, /*is_inline=*/false);
    const std::string wrong = transfer->Verdict();
    if (!wrong.empty()) TheScheduler().Fail("wrong result: " + wrong);
  } else {
    ++report_.failed;
    const std::string error = plan_.records() ? member.observer.Fail(span, status.message()) : status.message();
    checks_.CheckError(member.process, error);
  }
  transfer.reset();
  const OwnCode own_code;
  if (--*pending == 0) TheScheduler().Wake(pending);
}

void SimulatedJob::Start() {
  for (int process = 0; process < plan_.processes(); ++process) {
    processes_.push_back(TheScheduler().AddProcess(plan_.speeds[static_cast<size_t>(process)]));
    TheScheduler().Spawn(processes_.back(), "main", [this, owner = processes_.back()] { ProcessMain(owner); });
  }
}

// Before all processes have met, a missing one is the business of JAX's store.
void SimulatedJob::PlanFaults() {
  constexpr int64_t kOneLook = 90'000'000;  // less than from one look of a process that waits to the next
  met_ = TheScheduler().now();
  for (const Fault& fault : plan_.faults) {
    using Kind = Fault::Kind;
    if (fault.kind != Kind::kKilled && fault.kind != Kind::kStopped && fault.kind != Kind::kTraced) continue;
    TheScheduler().At(met_ + fault.at_ns, [this, fault] {
      Process* const process = processes_[static_cast<size_t>(fault.process)];
      if (process->dead) return;
      const auto stop = [=] {
        TheScheduler().Stop(process, met_ + fault.at_ns + fault.for_ns, fault.kind == Kind::kTraced);
      };
      if (fault.kind == Kind::kKilled) {
        TheScheduler().Kill(process);
      } else if (fault.steps > 0) {
        Scheduler::AtWork(process, fault.steps, [=] {
          if (TheScheduler().now() < met_ + fault.at_ns + kOneLook) stop();
        });
      } else {
        stop();
      }
    });
    if (fault.for_ns != kForEver) continue;
    // When the others must have given up: the run ends when all processes have.
    TheScheduler().At(met_ + fault.at_ns + 2'500'000'000,
                      [this, fault] { TheScheduler().Kill(processes_[static_cast<size_t>(fault.process)]); });
  }
}

Report SimulatedJob::Finish() const {
  const Scheduler& scheduler = TheScheduler();
  checks_.CheckEnd(met_, ended_, report_);
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
