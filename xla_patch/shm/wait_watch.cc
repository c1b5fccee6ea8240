#include "xla_patch/shm/wait_watch.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <utility>

#include "xla_patch/shm/inquiry.h"
#include "xla_patch/types/time_limit.h"

namespace xla_shmem::shm {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

// After this time without progress the records are searched for other programs, and again after a quarter of the time,
// within these bounds: the other process may come late, and need not wait itself.
constexpr nanoseconds kFirstFaultSearch = 1s;
constexpr nanoseconds kMaxSearchDistance = 4s;
// A search reads the records of all processes. The oldest operations come first.
constexpr int kSearchesPerCheck = 2;
// How long a late process may take to say what it does.
constexpr nanoseconds kAnswerTime = 1s;

std::string Seconds(nanoseconds time) {
  char text[32];
  snprintf(text, sizeof(text), "%.3g s", std::chrono::duration<double>(time).count());
  return text;
}

std::string WholeSeconds(nanoseconds time) {
  return std::to_string(std::chrono::round<std::chrono::seconds>(time).count()) + " s";
}

// "; PE 1 is in this process: …" if `awaited` has a PE of this process.
std::string DescribeLocal(const Heap& heap, const std::set<int>& awaited) {
  for (const int pe : awaited) {
    if (!heap.IsLocal(pe)) continue;
    return "; PE " + std::to_string(pe) +
           " is in this process: XLA may have too few threads for what runs at once; set NPROC=64 and PJRT_NPROC=64";
  }
  return "";
}

std::set<int> AwaitedBy(const std::vector<WaitWatch::Wait*>& waits) {
  std::set<int> awaited;
  for (const WaitWatch::Wait* wait : waits) awaited.merge(wait->operation->WaitsFor());
  return awaited;
}

const WaitWatch::Wait& Longest(const std::vector<WaitWatch::Wait*>& waits) {
  return **std::max_element(waits.begin(), waits.end(), [](const auto* a, const auto* b) { return a->time < b->time; });
}

void Print(const std::string& line) {
  const std::string text = "xla_shmem: " + line + "\n";
  fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

WaitWatch::WaitWatch(Heap* heap, WaitLimits limits)
    : heap_(heap), limits_(std::move(limits)), tell_at_(limits_.late_after) {}

void WaitWatch::Count(Clock::time_point now, const std::vector<Wait*>& waits) {
  constexpr auto kAway = 2 * kInterval;
  was_away_ = now - last_ > kAway;
  elapsed_ = std::min<nanoseconds>(now - last_, kAway);
  last_ = now;
  for (Wait* const wait : waits) {
    if (wait->made_progress) {
      wait->time = 0s;
      wait->next_fault_search = 0s;
    } else {
      wait->time += std::min<nanoseconds>(now - wait->looked, kAway);
    }
    wait->made_progress = false;
    wait->looked = now;
  }
}

Status WaitWatch::Check(Clock::time_point now, const std::vector<Wait*>& waits) {
  Count(now, waits);
  const Wait& longest = Longest(waits);
  PublishWaits(*heap_, AwaitedBy(waits), longest.operation->Describe({}));
  std::vector<Wait*> own;
  std::copy_if(waits.begin(), waits.end(), std::back_inserter(own),
               [](const Wait* wait) { return !wait->operation->is_of_default_backend(); });
  if (!own.empty()) {
    XLA_SHMEM_RETURN_IF_ERROR(CheckOwn(own));
  }
  TellIfLate(now, longest);
  return Status();
}

Status WaitWatch::CheckOwn(const std::vector<Wait*>& waits) {
  const std::set<int> awaited = AwaitedBy(waits);
  XLA_SHMEM_RETURN_IF_ERROR(FindGone(waits, awaited));
  const Wait& longest = Longest(waits);
  // A process that was stopped itself may have all that it waits for. It polls once more before it gives up.
  const bool is_past = longest.time > limits_.deadline;
  polls_once_more_ = is_past && was_away_ && !polls_once_more_;
  if (is_past && !polls_once_more_) return PastDeadline(*longest.operation);
  XLA_SHMEM_RETURN_IF_ERROR(FindStopped(awaited, longest));
  const bool is_late = longest.time >= limits_.late_after;
  int searches = 0;
  for (Wait* const wait : waits) {
    if (searches == kSearchesPerCheck) break;
    if (!wait->find_fault || wait->time < std::max(kFirstFaultSearch, wait->next_fault_search)) continue;
    ++searches;
    wait->next_fault_search = wait->time + std::clamp(wait->time / 4, kFirstFaultSearch, kMaxSearchDistance);
    const std::string fault = wait->find_fault(is_late);
    if (!fault.empty()) return Status::Error(wait->operation->Describe(wait->operation->WaitsFor()) + "; " + fault);
  }
  return Status();
}

Status WaitWatch::FindGone(const std::vector<Wait*>& waits, const std::set<int>& awaited) {
  std::map<int, Lateness> seen;  // by process
  for (const int pe : awaited) {
    if (heap_->IsLocal(pe) || !heap_->Reaches(pe)) continue;
    const auto [found, is_new] = seen.emplace(heap_->ProcessOf(pe), Lateness::kNone);
    if (is_new) {
      if (heap_->StateOf(pe) == ProcessState::kGone) {
        found->second = Lateness::kGone;
      } else if (heap_->HeaderOf(pe).at_end.load(std::memory_order_acquire) != 0) {
        found->second = Lateness::kAtEnd;
      }
    }
    if (found->second == Lateness::kNone) continue;
    // The process may have sent everything before it ended, so only operations that still wait for it fail.
    for (Wait* const wait : waits) {
      if (wait->operation->WaitsFor().count(pe) == 0) continue;
      // It may have sent everything under other ids, which the search learns: then the next poll finds it.
      if (wait->find_fault && !std::exchange(wait->searched_for_gone, true)) {
        wait->find_fault(/*is_late=*/false);
        continue;
      }
      return Status::Error(wait->operation->Describe({pe}) + Describe({{heap_->ProcessOf(pe), pe, found->second}}));
    }
  }
  return Status();
}

Status WaitWatch::FindStopped(const std::set<int>& awaited, const Wait& longest) {
  std::map<int, nanoseconds> stopped;
  for (const int pe : awaited) {
    if (heap_->IsLocal(pe) || heap_->StateOf(pe) != ProcessState::kStopped) continue;
    const auto before = stopped_.find(pe);
    stopped[pe] = before == stopped_.end() ? 0s : before->second + elapsed_;
    if (stopped[pe] < limits_.late_after) continue;
    return Status::Error(longest.operation->Describe({pe}) + "; " + NameProcess(heap_->ProcessOf(pe), pe) +
                         " has been stopped for " + WholeSeconds(stopped[pe]));
  }
  stopped_ = std::move(stopped);
  return Status();
}

std::vector<LateProcess> WaitWatch::FindLate(const Operation& operation) const {
  // A process that waits looks every 100 ms. While it copies a large array it does not look.
  const auto patience = std::max<nanoseconds>(std::min<nanoseconds>(limits_.deadline / 2, 5s), 5 * kInterval);
  return FindLateProcesses(*heap_, operation.WaitsFor(), patience);
}

namespace {

// The PEs of `awaited` that a text should name: those of late processes, or all if none is late.
std::set<int> NamedPes(const Heap& heap, const std::set<int>& awaited, const std::vector<LateProcess>& late) {
  std::set<int> named;
  for (const int pe : awaited) {
    const bool is_late = std::any_of(late.begin(), late.end(),
                                     [&](const LateProcess& each) { return each.process == heap.ProcessOf(pe); });
    if (is_late || late.empty() || heap.IsLocal(pe)) named.insert(pe);
  }
  return named;
}

// What is known of processes none of which is late.
std::string DescribeCycle(const Heap& heap, const std::set<int>& awaited) {
  if (std::any_of(awaited.begin(), awaited.end(), [&](int pe) { return !heap.Reaches(pe); })) {
    return "; no process of this host is late";
  }
  const bool waits_for_others = std::any_of(awaited.begin(), awaited.end(), [&](int pe) { return !heap.IsLocal(pe); });
  return waits_for_others ? "; each of these processes waits for another of them" + DescribeWaits(heap, awaited) : "";
}

}  // namespace

Status WaitWatch::PastDeadline(const Operation& operation) const {
  const std::set<int> awaited = operation.WaitsFor();
  const std::vector<LateProcess> late = FindLate(operation);
  return Status::Error(operation.Describe(NamedPes(*heap_, awaited, late)) + "; gave up after the deadline of " +
                       Seconds(limits_.deadline) + " (XLA_SHMEM_DEADLINE)" + Describe(late) +
                       (late.empty() ? DescribeCycle(*heap_, awaited) : "") + DescribeLocal(*heap_, awaited));
}

void WaitWatch::TellIfLate(Clock::time_point now, const Wait& longest) {
  if (longest.time < limits_.late_after) {
    tell_at_ = limits_.late_after;
    questions_.clear();
    return;
  }
  if (longest.time < tell_at_) return;
  const std::vector<LateProcess> late = FindLate(*longest.operation);
  if (questions_.empty()) {
    asked_at_ = now;
    for (const LateProcess& each : late) {
      if (each.lateness == Lateness::kElsewhere) questions_.push_back({each.pe, Ask(heap_->HeaderOf(each.pe)), ""});
    }
  }
  // Once: while the other process answers somebody else, it has no answer for a moment.
  bool all_answered = true;
  for (Question& question : questions_) {
    if (question.answer.empty()) question.answer = AnswerTo(heap_->HeaderOf(question.pe), question.number);
    all_answered &= !question.answer.empty();
  }
  if (!all_answered && now - asked_at_ < kAnswerTime) return;
  Tell(longest, late);
  tell_at_ = 2 * std::max(longest.time, limits_.late_after);
  questions_.clear();
}

void WaitWatch::Tell(const Wait& longest, const std::vector<LateProcess>& late) {
  const std::set<int> awaited = longest.operation->WaitsFor();
  std::string text =
      longest.operation->Describe(NamedPes(*heap_, awaited, late)) + "; no progress for " + WholeSeconds(longest.time);
  for (const LateProcess& each : late) {
    text += Describe({each});
    for (const Question& question : questions_) {
      if (question.pe == each.pe && !question.answer.empty()) text += ": it " + question.answer;
    }
  }
  if (late.empty()) text += DescribeCycle(*heap_, awaited);
  text += DescribeLocal(*heap_, awaited);
  text += "; goes on waiting";
  if (!longest.operation->is_of_default_backend()) {
    text += IsLimit(limits_.deadline) ? " until the deadline of " + Seconds(limits_.deadline) + " (XLA_SHMEM_DEADLINE)"
                                      : "; XLA_SHMEM_DEADLINE would set a limit";
  }
  (limits_.say ? limits_.say : Print)(text);
}

}  // namespace xla_shmem::shm
