"""Mistakes planted in a copy of the CPU runtime are found by the simulator within some seconds of seeds."""

from __future__ import annotations

import pytest
from planted_mistakes import ROOT, Mutant, SourceCopy, without_a_place
from simulator_build import Simulator
from wait_mutants import WAIT_MUTANTS

#: Seeds that a mistake may take to be found. The sources as they are pass them (test_seeds.py).
SEEDS = 6000

RELEASE = "std::memory_order_release"
RELAXED = "std::memory_order_relaxed"

MUTANTS = WAIT_MUTANTS | {
    # What reviews of the code have found.
    "a refused read is credited from the first chunk on": Mutant(
        "thunks/cpu/channel.cc", "  grant.credit = consumed / geometry.slot_bytes;\n", "  (void)consumed;\n"
    ),
    "a process lets go of its operands before it says that it follows a failure": Mutant(
        "shm/progress_engine.cc",
        "  if (!pending_.empty()) heap_->FollowFailure();  // nothing if the job has failed because of this process\n",
        "",
    ),
    "a reader does not ask whether the process that it read has failed": Mutant(
        "shm/cross_memory_reader.cc",
        "failed.load(std::memory_order_seq_cst) == kNotFailed",
        "failed.load(std::memory_order_seq_cst) <= kFollowing",
    ),
    "messages of two programs have one key": Mutant(
        "thunks/cpu/message_key.h",
        "operation == other.operation && execution == other.execution",
        "execution == other.execution",
    ),
    "a message that was read whole still waits for its sender": Mutant(
        "thunks/cpu/message_receiver.cc",
        "      return std::max(consumed_, bounced_.end) < total();  // its memory is needed until the last read\n",
        "      return true;\n",
    ),
    "a process that has exited is named though it sent everything": Mutant(
        "shm/wait_watch.cc", "      if (wait->operation->WaitsFor().count(pe) == 0) continue;\n", ""
    ),
    # What the simulator itself has found first.
    "a refused message grants its slots only when it is looked at again": Mutant(
        "thunks/cpu/message_receiver.cc",
        "  if (block_ != nullptr) channel_.Open(context, sender_, key_, block_, geometry_, consumed_);\n",
        "",
    ),
    # Doorbells.
    "a doorbell has no fence": Mutant(
        "shm/futex.cc",
        "#else\n  std::atomic_thread_fence(std::memory_order_seq_cst);\n",
        "#else\n",
    ),
    "a sleeper has no fence": Mutant(
        "shm/futex.cc",
        "  std::atomic_thread_fence(std::memory_order_seq_cst);\n#endif\n  return",
        "#endif\n  return",
    ),
    "a doorbell does not change the ticket": Mutant(
        "shm/futex.cc", "  bell.ticket.fetch_add(1, std::memory_order_seq_cst);\n", ""
    ),
    "a sleeper does not look again": Mutant(
        "shm/progress_engine.cc",
        "if (!PollOnce(Pass::kWhole, finished) && !made_progress_ && !arrivals) Sleep",
        "if (!arrivals) Sleep",
    ),
    "a new operation does not wake the polling thread": Mutant(
        "shm/progress_engine.cc", "  if (ring) Ring(heap_->OwnBell());\n", ""
    ),
    "posted mail wakes nobody": Mutant("thunks/cpu/mailboxes.cc", "  Ring(heap_->BellOf(receiver));\n", ""),
    "a credit wakes nobody": Mutant(
        "thunks/cpu/grant_board.cc",
        "  Store(Row(sender, pe_)[record].credit, consumed);\n  Ring(heap_->BellOf(sender));\n",
        "  Store(Row(sender, pe_)[record].credit, consumed);\n",
    ),
    "a chunk wakes nobody": Mutant("thunks/cpu/channel.cc", "  Ring(context.heap->BellOf(receiver_));\n", ""),
    # Mailboxes.
    "mail is visible before its bytes": Mutant(
        "thunks/cpu/mailboxes.cc",
        f"static_cast<uint64_t>(protocol), {RELEASE});",
        f"static_cast<uint64_t>(protocol), {RELAXED});",
    ),
    "mail is found without asking whether it is still there": Mutant(
        "thunks/cpu/mailboxes.cc", " || entry.state.load(std::memory_order_acquire) != state) continue;", ") continue;"
    ),
    "two threads may claim one mailbox": Mutant(
        "thunks/cpu/mailboxes.cc",
        "if (claimed[number].exchange(true, std::memory_order_acquire)) continue;",
        "claimed[number].store(true, std::memory_order_relaxed);",
    ),
    "a mailbox is claimed though it was filled meanwhile": Mutant(
        "thunks/cpu/mailboxes.cc",
        "    if (mailbox.entry->state.load(std::memory_order_acquire) == 0) return mailbox;\n",
        "    return mailbox;\n",
    ),
    "a claim is not ended": Mutant(
        "thunks/cpu/mailboxes.cc",
        "  claimed_[static_cast<size_t>(receiver) * kEntries + mailbox.number]"
        ".store(false, std::memory_order_release);\n",
        "",
    ),
    "mail is not freed": Mutant("thunks/cpu/message_receiver.cc", "    context.mailboxes->Release(mailbox_);\n", ""),
    # Grants and channels.
    "a grant is visible before its credit": Mutant(
        "thunks/cpu/grant_board.cc",
        "    Store(remote->credit, grant.credit);\n"
        "    const uint64_t generation = generation_.fetch_add(1, std::memory_order_relaxed) + 1;\n"
        "    Store(remote->state, generation);\n",
        "    const uint64_t generation = generation_.fetch_add(1, std::memory_order_relaxed) + 1;\n"
        "    Store(remote->state, generation);\n"
        "    Store(remote->credit, grant.credit);\n",
    ),
    "grants are stored relaxed": Mutant("thunks/cpu/grant_board.cc", "__ATOMIC_RELEASE", "__ATOMIC_RELAXED"),
    "grants are loaded relaxed": Mutant(
        "thunks/cpu/grant_board.cc",
        "uint64_t Load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }",
        "uint64_t Load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); }",
    ),
    "grants have one generation": Mutant(
        "thunks/cpu/grant_board.cc",
        "generation_.fetch_add(1, std::memory_order_relaxed) + 1;",
        "generation_.load(std::memory_order_relaxed) + 1;",
    ),
    "a grant is found without asking whether it is still there": Mutant(
        "thunks/cpu/grant_board.cc",
        "if (Load(record->state) == generation && grant->key == key)",
        "if (grant->key == key)",
    ),
    "a withdrawn grant stays": Mutant(
        "thunks/cpu/grant_board.cc", "  Store(Row(sender, pe_)[record].state, uint64_t{0});\n", ""
    ),
    "a sender takes a credit too many": Mutant(
        "thunks/cpu/channel.cc",
        "Load(credit_) + geometry_.num_slots <= sent_",
        "Load(credit_) + geometry_.num_slots < sent_",
    ),
    "a chunk is signalled before it is there": Mutant(
        "thunks/cpu/message_sender.cc",
        "    FillSlot(context, slot, begin, end);\n    channel_.Signal(context);\n",
        "    channel_.Signal(context);\n    FillSlot(context, slot, begin, end);\n",
    ),
    "chunks are signalled relaxed": Mutant("thunks/cpu/channel.cc", "__ATOMIC_RELEASE", "__ATOMIC_RELAXED"),
    "chunks are awaited relaxed": Mutant("thunks/cpu/channel.cc", "__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED"),
    "a slot is given back before it is read": Mutant(
        "thunks/cpu/message_receiver.cc",
        "      memory_.CopyFrom(view.data, consumed_, end);\n      Consume(context, end);\n",
        "      const size_t begin = consumed_;\n      Consume(context, end);\n"
        "      memory_.CopyFrom(view.data, begin, end);\n",
    ),
    "blocks are not given back": Mutant(
        "thunks/cpu/collective_operation.cc", "  for (const BlockSet& set : blocks_) ReturnBlocks(set);\n", ""
    ),
    "some blocks are lost if not all can be had": Mutant(
        "thunks/cpu/blocks.cc",
        "      ReturnBlocks(*set);\n      set->blocks.clear();\n",
        "      set->blocks.clear();\n",
    ),
    "a grant outlives its operation": Mutant(
        "thunks/cpu/collective_operation.cc",
        "  for (Receiving& receiving : receives_) receiving.message.Close(*context_);\n",
        "",
    ),
    "two threads take slots at once": Mutant(
        "thunks/cpu/slot_pool.cc",
        "  const int size_class = ClassOf(bytes);\n  std::lock_guard<std::mutex> lock(mutex_);\n  size_t offset;\n",
        "  const int size_class = ClassOf(bytes);\n  size_t offset;\n",
    ),
    # Cross-memory reads.
    "a sender lets its operand go when it has offered it": Mutant(
        "thunks/cpu/message_sender.cc",
        "  protocol_ = Protocol::kCrossMemoryRead;\n  return true;\n",
        "  taken_ = total();\n  return true;\n",
    ),
    "a sender offers what is not ready": Mutant(
        "thunks/cpu/message_sender.cc",
        "Post(receiver_, mailbox_, key_, total(), ready, MailboxProtocol::kCrossMemoryRead,",
        "Post(receiver_, mailbox_, key_, total(), total(), MailboxProtocol::kCrossMemoryRead,",
    ),
    "bytes that are overwritten may be read": Mutant(
        "thunks/cpu/message_sender.cc",
        "!overwritten_ && total() >= kMinCrossMemoryReadBytes",
        "total() >= kMinCrossMemoryReadBytes",
    ),
    "a refused read is not told to the sender": Mutant(
        "thunks/cpu/message_receiver.cc", "    entry.taken.store(kRefused, std::memory_order_release);\n", ""
    ),
    "a failed operation does not wait for a reader of its process": Mutant(
        "thunks/cpu/message_sender.cc",
        "  while (mailbox_.entry->reading.load(std::memory_order_seq_cst) != 0) sched_yield();\n",
        "",
    ),
    "a failed operation does not stop readers of its process": Mutant(
        "thunks/cpu/message_sender.cc",
        "  mailbox_.entry->state.store(kRevoked, std::memory_order_seq_cst);\n"
        "  while (mailbox_.entry->reading.load(std::memory_order_seq_cst) != 0) sched_yield();\n"
        "  context.mailboxes->Free(mailbox_);\n",
        "  while (mailbox_.entry->reading.load(std::memory_order_seq_cst) != 0) sched_yield();\n",
    ),
    # Buffers of peers that a reduction reads where they are.
    "a reduction does not ask whether a process whose buffers it has read has failed": Mutant(
        "thunks/cpu/reducer.cc",
        "      is_right &= !view.is_of_sender() || context.cross_memory_reader->IsIntact(message.sender());\n",
        "",
    ),
    "buffers are given back before they are reduced": Mutant(
        "thunks/cpu/reducer.cc",
        "    ReduceTo(context, end);\n    for (const auto& [message, view] : contributions_) {\n",
        "    for (Contribution& contribution : contributions_) contribution.message.Consume(context, end);\n"
        "    ReduceTo(context, end);\n    for (const auto& [message, view] : contributions_) {\n",
    ),
    "buffers that a sender of the same process has back are read": Mutant(
        "thunks/cpu/message_receiver.cc",
        "  if (entry.state.load(std::memory_order_seq_cst) == mailbox_.state) return true;\n",
        "  return true;\n",
    ),
    "addresses of buffers are read before they are held": Mutant(
        "thunks/cpu/message_receiver.cc",
        "        if (!Hold()) return nothing;\n        sees_buffers_ = SeesBuffers(context);\n        Release();\n",
        "        sees_buffers_ = SeesBuffers(context);\n",
    ),
    "one exchange and two are chosen by what a process itself may read": Mutant(
        "shm/cross_memory_reader.cc",
        "has_shared_buffers_.push_back(heap->Reaches(pe) && heap->HeaderOf(pe).shared_buffers.bytes != 0);",
        "has_shared_buffers_.push_back(reads && (heap->IsLocal(pe) || shared_.at(heap->ProcessOf(pe)) != nullptr));",
    ),
    # Order within an operation.
    "a result overwrites what has not left": Mutant(
        "thunks/cpu/collective_operation.cc",
        "receiving.overwritten_send < 0 ? receiving.message.total()",
        "receiving.overwritten_send < 1 ? receiving.message.total()",
    ),
    "a reduction overwrites what has not left": Mutant(
        "thunks/cpu/collective_operation.cc",
        "reduction_overwrites_sends_ ? std::min(taken_by_all, reducer_->total()) : reducer_->total();",
        "reducer_->total();",
    ),
    "a local copy overwrites what has not left": Mutant(
        "thunks/cpu/collective_operation.cc", "if (copies_overwrite_sends_ && sending", "if (false && sending"
    ),
    # Collectives within one process.
    "members see the plan before it is made": Mutant(
        "thunks/cpu/in_process_collective.cc",
        "  plan_ = plan(members_);\n",
        "  is_planned_.store(true, std::memory_order_release);\n  plan_ = plan(members_);\n",
    ),
    "a member ends before the chunks of others": Mutant(
        "thunks/cpu/in_process_collective.h",
        "left_.load(std::memory_order_acquire) == 0;",
        "next_.load(std::memory_order_acquire) >= plan_.chunks();",
    ),
    "a chunk is finished before it has run": Mutant(
        "thunks/cpu/in_process_collective.cc",
        "      plan_.Run(chunk, is_streaming_, &scratch);\n"
        "      worked = true;\n"
        "      *is_last = left_.fetch_sub(1, std::memory_order_acq_rel) == 1;\n",
        "      *is_last = left_.fetch_sub(1, std::memory_order_acq_rel) == 1;\n"
        "      plan_.Run(chunk, is_streaming_, &scratch);\n"
        "      worked = true;\n",
    ),
    "the last member wakes nobody": Mutant(
        "thunks/cpu/in_process_collective.cc",
        "  if (is_last || ran_last) shm::Ring(context_->heap->OwnBell());\n",
        "",
    ),
    "a copy in place does not read first": Mutant(
        "thunks/cpu/in_process_plan.cc",
        "return writer.to == reader.from;",
        "return writer.to == nullptr && reader.from == nullptr;",
    ),
    "giving up does not wait for threads at work": Mutant(
        "thunks/cpu/in_process_collective.cc",
        "  while (workers_.load(std::memory_order_seq_cst) != 0) sched_yield();\n",
        "",
    ),
    # The engine and failures.
    "an idle thread is not woken": Mutant("shm/progress_engine.cc", "    wake_.notify_one();\n", ""),
    "the reason of a failure is visible before its text": Mutant(
        "shm/heap.cc",
        "  const size_t length = std::min(why.size(), kFailureTextBytes - 1);\n",
        "  header.failed.store(kFailed, std::memory_order_release);\n"
        "  const size_t length = std::min(why.size(), kFailureTextBytes - 1);\n",
    ),
    "a deadline is not kept": Mutant(
        "shm/wait_watch.cc", "is_past = longest.time > limits_.deadline;", "is_past = false;"
    ),
    "a process that was stopped gives up without another look": Mutant(
        "shm/wait_watch.cc", "polls_once_more_ = is_past && was_away_ && !polls_once_more_;", "(void)was_away_;"
    ),
    "a process does not say for whom it waits": Mutant(
        "shm/wait_watch.cc", "  PublishWaits(*heap_, AwaitedBy(waits), longest.operation->Describe({}));\n", ""
    ),
    "a process that is stopped and had waited is not late": Mutant(
        "shm/late_processes.cc", "return Lateness::kStopped;", "return Lateness::kNone;"
    ),
    "executions have no numbers": Mutant(
        "runtime/execution_counter.cc",
        "static_cast<uint64_t>(number) << 32 | executions",
        "number * uint64_t{0} | executions",
    ),
}


@pytest.fixture(scope="module")
def copy() -> SourceCopy:
    return SourceCopy(ROOT / "build" / "simulator_mutants" / "sources")


@pytest.fixture(scope="module")
def mutated(copy: SourceCopy) -> Simulator:
    return Simulator(copy.folder, ROOT / "build" / "simulator_mutants" / "build")


def test_every_mistake_has_its_place() -> None:
    assert without_a_place(MUTANTS) == []


@pytest.mark.slow
@pytest.mark.timeout(0)  # beside other work it takes longer; each seed has a limit of processor time
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_is_found(copy: SourceCopy, mutated: Simulator, name: str) -> None:
    mutant = MUTANTS[name]
    copy.plant(mutant)
    try:
        mutated.build()
        run = mutated.run("--seeds", str(SEEDS))
        print(*(line for line in run.stderr.splitlines() if line.startswith(("FAILED", "seed"))), sep="\n")
        assert run.returncode == 1, f"not found: {run.stdout}"
        assert "FAILED" in run.stderr or "signal" in run.stderr, run.stderr
    finally:
        copy.restore(mutant)
