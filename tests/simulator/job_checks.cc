#include "tests/simulator/job_checks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tests/simulator/scheduler.h"
#include "tests/thunks/cpu/count_blocks.h"
#include "xla_patch/thunks/cpu/grant_board.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/slot_pool.h"

namespace xla_shmem::simulator {
namespace {

using testing::CountBlocks;

constexpr int64_t kSlack = 500'000'000;

[[noreturn]] void Fail(const std::string& why) { Scheduler::Get().Fail(why); }

bool Says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

bool Names(const std::string& text, int process) { return Says(text, "process " + std::to_string(process) + " (PE "); }

}  // namespace

JobChecks::JobChecks(const Plan& plan) : plan_(plan) {
  for (const Fault& fault : plan.faults) {
    if (fault.kind != Fault::Kind::kLate) continue;
    latenesses_.push_back({fault, 0, 0, std::vector<int>(static_cast<size_t>(plan.processes()))});
  }
}

void JobChecks::AddLateness(int round, int process) {
  for (Lateness& lateness : latenesses_) {
    const bool is_it = lateness.fault.round == round && lateness.fault.process == process;
    if (is_it && lateness.from == 0) lateness.from = Scheduler::Get().now();
  }
}

void JobChecks::AddWait(int round, const std::set<int>& pes) {
  for (Lateness& lateness : latenesses_) {
    if (lateness.fault.round != round || lateness.awaited_from != 0) continue;
    const bool is_awaited = std::any_of(pes.begin(), pes.end(), [&](int pe) {
      return plan_.process_of_pe[static_cast<size_t>(pe)] == lateness.fault.process;
    });
    if (is_awaited) lateness.awaited_from = Scheduler::Get().now();
  }
}

void JobChecks::CheckError(int process, const std::string& error) const {
  const auto fail = [&](const std::string& why) {
    Fail(why + ": process " + std::to_string(process) + " failed with: " + error);
  };
  if (plan_.must_succeed()) fail("a run without a fault failed");
  if (const int ended = plan_.ProcessWith(Fault::Kind::kEnds); ended >= 0) {
    if (!Names(error, ended) || !Says(error, ") has come to the end of its program")) {
      fail("an error does not name the process at its end");
    }
    return;
  }
  if (plan_.Has(Fault::Kind::kOther)) {
    const char* const words[] = {"of another program;", "of another program of that name: its copy differs",
                                 "of another program of that name: its copy differs: collective "};
    // A process that needs nothing of the others comes to its end.
    if (!Says(error, words[static_cast<int>(plan_.other)]) && !Says(error, ") has come to the end of its program")) {
      fail("an error does not say that a process is in another program");
    }
    return;
  }
  if (plan_.KnowsLateness() && plan_.Has(Fault::Kind::kStopped)) {
    if (!Names(error, plan_.ProcessWith(Fault::Kind::kStopped)) || !Says(error, ") has been stopped for 1 s")) {
      fail("an error does not name the process that is stopped for good");
    }
    return;
  }
  CheckErrorOfKilled(process, error);
}

void JobChecks::CheckErrorOfKilled(int process, const std::string& error) const {
  const auto fail = [&](const std::string& why) {
    Fail(why + ": process " + std::to_string(process) + " failed with: " + error);
  };
  if (plan_.refuses_threads() && Says(error, "cannot start a thread")) return;
  bool names_killed = false;
  for (int other = 0; other < plan_.processes(); ++other) {
    if (!Names(error, other) || !Says(error, ") has exited")) continue;
    names_killed |= plan_.IsKilled(other);
    if (!plan_.IsKilled(other) && !plan_.refuses_threads()) fail("an error names a process that did not die");
  }
  if (names_killed) return;
  if (!Says(error, "gave up after the deadline")) fail("an error names neither a process that died nor a deadline");
  if (const int stopped = plan_.OnlyStopped(); stopped >= 0) {
    for (int other = 0; other < plan_.processes(); ++other) {
      if (Names(error, other) != (other == stopped)) fail("an error does not name the stopped process alone");
    }
  }
  const bool in_time = !plan_.AnyKilled() && !plan_.scarce && plan_.scheduler.pause_ns == 0;
  if (in_time && plan_.LongestStop() + 150'000'000 < plan_.deadline.count()) {
    fail("a stop of " + std::to_string(plan_.LongestStop() / 1'000'000) + " ms failed a job before its deadline");
  }
}

void JobChecks::CheckLine(int process, const std::string& line) {
  ++lines_;
  // Of the last process that was late: the lines come while it is.
  for (auto lateness = latenesses_.rbegin(); lateness != latenesses_.rend(); ++lateness) {
    if (lateness->from == 0) continue;
    ++lateness->lines[static_cast<size_t>(process)];
    break;
  }
  if (!plan_.KnowsLateness()) return;
  const auto fail = [&](const std::string& why) { Fail(why + ": " + line); };
  const int late = plan_.ProcessWith(Fault::Kind::kLate);
  for (int other = 0; other < plan_.processes(); ++other) {
    if (late >= 0 && other != late && Names(line, other)) fail("a line names a process that is not late");
  }
  const std::pair<const char*, Fault::Kind> words[] = {{"is running, but in no collective", Fault::Kind::kLate},
                                                       {"is stopped;", Fault::Kind::kStopped},
                                                       {"is stopped by a debugger", Fault::Kind::kTraced},
                                                       {"has come to the end of its program", Fault::Kind::kEnds},
                                                       {"has exited", Fault::Kind::kKilled}};
  for (const auto& [what, kind] : words) {
    if (!Says(line, what)) continue;
    const int of = plan_.ProcessWith(kind);
    if (of < 0 || !Names(line, of)) fail("a line says what this process does not do");
  }
  if (plan_.foreign && Says(line, "XLA_SHMEM_DEADLINE")) fail("a line promises a deadline of the default backend");
  if (plan_.answers && Says(line, "is running, but in no collective") && !Says(line, ": it is simulated")) {
    fail("a line does not say what the late process does");
  }
}

// A wait of at least `late_after` is told, at growing distance; a shorter one is not.
void JobChecks::CheckLines(const Lateness& lateness) const {
  const int64_t time = lateness.fault.for_ns, after = plan_.late_after.count();
  int most = 0, any = 0;
  for (int64_t at = after; at < time + kSlack; at *= 2) ++most;
  for (const int lines : lateness.lines) {
    any += lines;
    if (lines > most) Fail(std::to_string(lines) + " lines in " + std::to_string(time / 1'000'000) + " ms");
  }
  if (lateness.lines[static_cast<size_t>(lateness.fault.process)] > 0) Fail("the late process itself prints a line");
  // A process that needs nothing of the late one in the round before has begun to wait there. The lines of such a wait
  // come at the distance that it has reached.
  const bool is_new = lateness.awaited_from > lateness.from - kSlack;
  if (is_new && time > after + kSlack && any == 0) Fail("nobody says that a process is late");
}

void JobChecks::CheckAllFree(const shm::Heap& heap, const LocalPes& pes) const {
  for (const int pe : heap.local_pes()) {
    const PeContext& context = *pes.context(pe);
    constexpr size_t kBlock = 4096;
    char* const anywhere = heap.base(pe);  // a pool does not touch its memory
    SlotPool slots(anywhere, plan_.arena_bytes), reserve(anywhere, plan_.reserve_bytes);
    if (CountBlocks(context.slots, kBlock) != CountBlocks(&slots, kBlock) ||
        CountBlocks(context.reserve, kBlock) != CountBlocks(&reserve, kBlock)) {
      Fail("PE " + std::to_string(pe) + " has lost slots");
    }
    if (plan_.ring_only) continue;
    // The board lies first in a heap, and then the mailboxes (LocalPes::Create).
    const auto* const records = reinterpret_cast<const GrantRecord*>(heap.base(pe));
    for (size_t i = 0; i < GrantBoard::Bytes(plan_.n_pes()) / sizeof(GrantRecord); ++i) {
      if (records[i].state != 0) Fail("PE " + std::to_string(pe) + " still has a grant");
    }
    for (int receiver = 0; receiver < plan_.n_pes(); ++receiver) {
      int free = 0;
      for (uint64_t operation = 0; operation < 4096 && free < 64; ++operation) {
        free += context.mailboxes->Claim(receiver, {operation, 0}).entry != nullptr;
      }
      if (free != 64) {
        Fail("PE " + std::to_string(pe) + " finds " + std::to_string(free) + " of 64 mailboxes free at PE " +
             std::to_string(receiver));
      }
    }
  }
}

void JobChecks::CheckEnd(int64_t met, int64_t ended, const Report& report) const {
  for (const Lateness& lateness : latenesses_) {
    if (plan_.KnowsLateness() && plan_.answers) CheckLines(lateness);
    const bool too_late = lateness.awaited_from != 0 && lateness.fault.for_ns > plan_.deadline.count();
    if (too_late && !plan_.must_succeed() && report.failed == 0) Fail("nobody gave up after the deadline");
  }
  if (plan_.foreign && plan_.Has(Fault::Kind::kEnds) && lines_ == 0) Fail("nobody says that a process is at its end");
  // A process that stops may begin its last operation when it goes on.
  const int64_t limit = plan_.within_ns > 0 ? plan_.LastFault() + plan_.within_ns + plan_.linger_ns
                                            : plan_.LastFault() + plan_.LongestStop() + plan_.linger_ns +
                                                  2 * plan_.deadline.count() + 3'000'000'000;
  if (!plan_.faults.empty() && ended - met > limit) {
    Fail("the job ended " + std::to_string((ended - met) / 1'000'000) + " ms after its begin");
  }
}

}  // namespace xla_shmem::simulator
