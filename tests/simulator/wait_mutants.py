"""Mistakes in how processes wait for one another: late, stopped, dead, at the end, in another program, progress."""

from __future__ import annotations

from planted_mistakes import Mutant

WATCH = "shm/wait_watch.cc"
MISMATCH = "runtime/observe/program_mismatch.cc"
PEER_OPERATIONS = "thunks/cpu/peer_operations.cc"

WAIT_MUTANTS = {
    # Progress and lines.
    "progress does not count": Mutant(
        WATCH, "    if (wait->made_progress) {\n", "    if (wait->made_progress && false) {\n"
    ),
    "a process waits while it is stopped itself": Mutant(
        WATCH,
        "wait->time += std::min<nanoseconds>(now - wait->looked, kAway);",
        "wait->time += now - wait->looked;",
    ),
    "a late process fails the job": Mutant(
        WATCH,
        "  TellIfLate(now, longest);\n",
        "  if (longest.time >= limits_.late_after) return PastDeadline(*longest.operation);\n"
        "  TellIfLate(now, longest);\n",
    ),
    "nobody looks for processes at their end": Mutant(
        WATCH,
        "heap_->HeaderOf(pe).at_end.load(std::memory_order_acquire) != 0",
        "heap_->HeaderOf(pe).at_end.load(std::memory_order_acquire) > 1",
    ),
    "a process that is stopped is an error at once": Mutant(
        WATCH, "    if (stopped[pe] < limits_.late_after) continue;\n", ""
    ),
    "a process that stays stopped is waited for": Mutant(
        WATCH, "if (stopped[pe] < limits_.late_after) continue;", "if (stopped[pe] >= 0s) continue;"
    ),
    "two short stops count as a long one": Mutant(
        WATCH,
        "  stopped_ = std::move(stopped);\n",
        "  for (const auto& [pe, time] : stopped) stopped_[pe] = time;\n",
    ),
    "nobody looks for another program": Mutant(WATCH, "    if (!wait->find_fault || ", "    if (wait->find_fault || "),
    "lines about late processes come at equal distance": Mutant(
        WATCH,
        "tell_at_ = 2 * std::max(longest.time, limits_.late_after);",
        "tell_at_ = longest.time + limits_.late_after;",
    ),
    "lines about a second wait come as if the first went on": Mutant(
        WATCH,
        "    tell_at_ = limits_.late_after;\n    questions_.clear();\n",
        "    questions_.clear();\n",
    ),
    "a process that waits counts as late": Mutant(
        "shm/late_processes.cc", "if (looked == 0) return Lateness", "if (looked >= 0) return Lateness"
    ),
    "a late process is not asked what it does": Mutant(
        WATCH, "each.lateness == Lateness::kElsewhere", "each.lateness == Lateness::kTraced"
    ),
    "a line does not wait for the answer": Mutant(
        WATCH, "  if (!all_answered && now - asked_at_ < kAnswerTime) return;\n", ""
    ),
    "an answer is read again when the line is written": Mutant(
        WATCH, '": it " + question.answer', '": it " + AnswerTo(heap_->HeaderOf(each.pe), question.number)'
    ),
    "a question wakes nobody": Mutant("shm/inquiry.cc", "  Ring(header.inquiry_bell);\n", ""),
    "a thread sleeps though it has been asked": Mutant(
        "shm/inquiry.cc", "own.inquiry.questions.load(std::memory_order_acquire) == last) Sleep", "last != ~0u) Sleep"
    ),
    "progress once is progress for ever": Mutant(WATCH, "    wait->made_progress = false;\n", ""),
    "a late process is said to have exited": Mutant(
        "shm/late_processes.cc",
        "    case ProcessState::kRuns:\n      break;\n",
        "    case ProcessState::kRuns:\n      return Lateness::kGone;\n",
    ),
    "a process that a debugger has stopped is stopped for good": Mutant(
        WATCH, "heap_->StateOf(pe) != ProcessState::kStopped", "heap_->StateOf(pe) == ProcessState::kRuns"
    ),
    "a process at its end is said to run": Mutant(
        "shm/late_processes.cc",
        "  if (header.at_end.load(std::memory_order_acquire) != 0) return Lateness::kAtEnd;\n",
        "",
    ),
    # Collectives of the default backend.
    "a collective of the default backend fails the job": Mutant(
        WATCH, "return !wait->operation->is_of_default_backend();", "return wait->operation != nullptr;"
    ),
    "nobody says who is late in a collective of the default backend": Mutant(
        WATCH, "  TellIfLate(now, longest);\n", "  if (!own.empty()) TellIfLate(now, longest);\n"
    ),
    "a line promises a deadline of the default backend": Mutant(
        WATCH, "if (!longest.operation->is_of_default_backend()) {", "if (longest.operation != nullptr) {"
    ),
    # Dead processes.
    "nobody looks for processes that have exited": Mutant(
        WATCH, "heap_->StateOf(pe) == ProcessState::kGone", "heap_->StateOf(pe) == ProcessState::kTraced"
    ),
    "a process that has exited is an error only after some seconds": Mutant(
        WATCH,
        "  XLA_SHMEM_RETURN_IF_ERROR(FindGone(waits, awaited));\n",
        "  if (Longest(waits).time > 3s) XLA_SHMEM_RETURN_IF_ERROR(FindGone(waits, awaited));\n",
    ),
    # Other programs.
    "records are searched for other programs once": Mutant(
        WATCH,
        "wait->next_fault_search = wait->time + std::clamp(wait->time / 4, kFirstFaultSearch, kMaxSearchDistance);",
        "wait->next_fault_search = nanoseconds::max();",
    ),
    "a program of another name is never looked at": Mutant(
        "runtime/observe/observer.cc",
        "is_late ? MismatchScope::kAllPrograms",
        "!records() ? MismatchScope::kAllPrograms",
    ),
    "a process that still compiles is in another program": Mutant(
        "runtime/observe/observer.cc",
        "is_late ? MismatchScope::kAllPrograms",
        "records() ? MismatchScope::kAllPrograms",
    ),
    "only the first of the other processes is looked at": Mutant(
        MISMATCH,
        "if (number == own_process || is_paired(site.origin.program)) continue;",
        "if (number != (own_process == 0 ? 1 : 0) || is_paired(site.origin.program)) continue;",
    ),
    "the number of sites is read before the entries": Mutant(
        "runtime/observe/ring_reader.cc", "  header()->site_bytes = site_bytes;\n", ""
    ),
    # Copies of programs.
    "a pair exchanges operations": Mutant(
        MISMATCH,
        "copy.sites.at(place)->operation",
        "copy.sites.at({copy.sites.rbegin()->first.first - place.first, place.second})->operation",
    ),
    "the first program of a form is the copy of all of that form": Mutant(
        MISMATCH, "const LoadedProgram& copy = *there[place];", "const LoadedProgram& copy = *there[0];"
    ),
    "grants are looked for under own ids": Mutant(
        "thunks/cpu/channel.cc", "context.peer_operations->KeyOf(receiver, key)", "key"
    ),
    "mail is looked for under own ids": Mutant(
        "thunks/cpu/message_receiver.cc", "context.peer_operations->KeyOf(sender_, key_)", "key_"
    ),
    "second messages have one id in all copies": Mutant(
        PEER_OPERATIONS,
        "ids->insert_or_assign({SecondMessage({operation, 0}).operation, pe}",
        "ids->insert_or_assign({operation, -1}",
    ),
    "ids that were learned are forgotten with the next": Mutant(
        PEER_OPERATIONS,
        "all_.empty() ? std::make_unique<Ids>() : std::make_unique<Ids>(*all_.back());",
        "std::make_unique<Ids>();",
    ),
    "all other processes have the ids of the first": Mutant(
        PEER_OPERATIONS,
        "  const auto found = ids.find({key.operation, pe});\n",
        "  auto found = ids.lower_bound({key.operation, 0});\n"
        "  if (found != ids.end() && found->first.first != key.operation) found = ids.end();\n"
        "  (void)pe;\n",
    ),
    "nobody looks for the ids of a process that has exited": Mutant(
        WATCH,
        "wait->find_fault && !std::exchange(wait->searched_for_gone, true)",
        "wait->find_fault && wait->searched_for_gone",
    ),
    "nobody polls again once the ids of a process that has exited are known": Mutant(
        WATCH,
        "        wait->find_fault(/*is_late=*/false);\n        continue;\n",
        "        wait->find_fault(/*is_late=*/false);\n",
    ),
}
