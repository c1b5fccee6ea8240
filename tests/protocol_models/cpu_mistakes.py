"""Mistakes planted in the models of the CPU path."""

from __future__ import annotations

from mistakes import ENDLESS, STUCK, Mistake
from spin_checks import Bounds


def channel(*defines: str) -> Bounds:
    return Bounds("cpu/channel.pml", defines, polls=True)


def mailboxes(*defines: str) -> Bounds:
    return Bounds("cpu/mailboxes.pml", ("MESSAGES=2", *defines), polls=True)


TWO_BLOCKS = channel("BLOCKS=2", "CHUNKS=2", "MAY_FAIL=0")
BLOCKS = Bounds("cpu/blocks.pml")
READ = Bounds("cpu/direct_read.pml")
FAILURE = Bounds("cpu/failure.pml")
REVOKE = Bounds("cpu/revoke.pml", polls=True)
WAITS = Bounds("cpu/waits.pml", polls=True)
WAITS_DEADLINE = Bounds("cpu/waits.pml", ("DEADLINE=3",), polls=True)
WAITS_COPIES = Bounds("cpu/waits.pml", ("COPIES=1",), polls=True)

CPU_MISTAKES = {
    # Grants, credits and slots.
    "a sender takes a credit too many": Mistake(channel(), "credit + SLOTS > sent", "credit + SLOTS >= sent"),
    "a credit is given before the slot is read": Mistake(
        channel(),
        "     CopyOut(key);\n",
        "     board[record].credit = consumed + 1;\n     CopyOut(key);\n",
    ),
    "a chunk is signalled before it is there": Mistake(
        channel(), "     CopyIn(key);\n", "     arena[block].arrived = sent + 1;\n     CopyIn(key);\n"
    ),
    "a grant is visible before its block": Mistake(
        TWO_BLOCKS,
        "     board[record].block = block;\n",
        "     board[record].state = generation + 1;\n     board[record].block = block;\n",
    ),
    "grants have one generation": Mistake(TWO_BLOCKS, "atomic { generation++; mine = generation }", "mine = 1"),
    "a grant is found without asking whether it is still there": Mistake(
        TWO_BLOCKS, "board[record].state == seen && seen_key == key", "seen_key == key"
    ),
    "a withdrawn grant stays": Mistake(channel(), "  board[record].state = 0;\n", ""),
    "a grant outlives its operation": Mistake(channel("MAY_FAIL=0"), "  Withdraw();\n", "", ENDLESS),
    "a block is given back before the last chunk": Mistake(
        channel(), ":: consumed == CHUNKS -> GiveBackBlocks()", ":: consumed + 1 == CHUNKS -> GiveBackBlocks()"
    ),
    "an operation that is given up gives its block back": Mistake(
        channel(),
        "  :: failed[RECEIVER] -> Abandon()\n",
        "  :: failed[RECEIVER] && block < BLOCKS -> ReturnBlock(); Abandon()\n"
        "  :: failed[RECEIVER] && block == BLOCKS -> Abandon()\n",
    ),
    "a process does not follow a failure": Mistake(
        channel("MAY_FAIL=1"), "  :: failed[1 - process] -> Fail(process)\n", "", STUCK
    ),
    # Blocks.
    "an operation holds its blocks until it has sent everything": Mistake(
        BLOCKS,
        "atomic { has_blocks && received == MESSAGES ->",
        "atomic { has_blocks && received == MESSAGES && sent == MESSAGES ->",
        STUCK,
    ),
    "an operation takes one block and waits for the other": Mistake(
        Bounds("cpu/blocks.pml", ("BLOCKS=2",)),
        "free[pe] >= MESSAGES -> OpenGrants()",
        "free[pe] >= 1 -> free[pe]-- }; atomic { free[pe] >= 1 -> free[pe]++; OpenGrants()",
        STUCK,
    ),
    # Mailboxes.
    "mail is posted before its bytes are written": Mistake(
        mailboxes(), "     row[entry].data = key;\n     Post()\n", "     Post();\n     row[entry].data = key\n"
    ),
    "mail is found without asking whether it is still there": Mistake(
        mailboxes(), "seen_key == key && row[entry].state == found", "seen_key == key"
    ),
    "a mailbox is claimed though it was filled meanwhile": Mistake(
        mailboxes(), "           :: row[entry].state == 0 -> claim = true\n", "           :: true -> claim = true\n"
    ),
    "two threads may claim one mailbox": Mistake(mailboxes(), "        :: was -> entry++\n", ""),
    "a claim is not ended": Mistake(
        mailboxes(), "  row[entry].state = number;\n  claimed[entry] = false\n", "  row[entry].state = number\n"
    ),
    "mail is not freed": Mistake(mailboxes(), "        Release();\n", ""),
    "a grant stays though mail came": Mistake(
        mailboxes(), "        :: has_granted -> Close()\n", "        :: has_granted -> skip\n"
    ),
    # Direct reads.
    "a refused read is credited from the first chunk on": Mistake(
        READ, "credit = consumed / CHUNK;", "credit = 0;", STUCK
    ),
    "a refused read is credited with a chunk that was read in part": Mistake(
        READ, "credit = consumed / CHUNK;", "credit = (consumed + CHUNK - 1) / CHUNK;"
    ),
    "a sender does not begin behind what was read": Mistake(READ, "  sent = credit\n", "  sent = 0\n"),
    "a refusal is not told to the sender": Mistake(READ, "  taken = REFUSED;\n", "", STUCK),
    "mail stays after a refusal": Mistake(READ, "        FreeMailbox();\n        break\n", "        break\n"),
    "bytes are taken before they are read": Mistake(
        READ, ":: true -> Read(end); Take(end)", ":: true -> taken = end; Read(end); Take(end)"
    ),
    "a sender lets its operand go when it has offered it": Mistake(
        READ, "     Offer();\n", "     Offer();\n     LetGo();\n"
    ),
    "a sender offers what is not ready": Mistake(READ, "  ready = reduced;\n  taken", "  ready = POSITIONS;\n  taken"),
    # Failures.
    "a follower lets go of its operand without a flag": Mistake(FAILURE, "  Follow();\n", ""),
    "a follower lets go of its operand before it sets its flag": Mistake(
        FAILURE, "  Follow();\n  let_go[me] = true\n", "  let_go[me] = true;\n  Follow()\n"
    ),
    "a reader does not ask whether the other process has failed": Mistake(FAILURE, "  AskWhetherItHasFailed();\n", ""),
    "a reader asks before it reads": Mistake(
        FAILURE,
        "  Read();\n  AskWhetherItHasFailed();\n",
        "  gone = dead[BEFORE(me)] || header[BEFORE(me)] != NOT_FAILED;\n  garbage = let_go[BEFORE(me)];\n",
    ),
    "a reader believes a follower": Mistake(
        FAILURE, "gone || header[BEFORE(me)] != NOT_FAILED", "gone || header[BEFORE(me)] % FOLLOWING != NOT_FAILED"
    ),
    "a failure is not published": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=1",)), "  header[me] = FAILED\n", "  skip\n", STUCK
    ),
    "nobody looks for dead processes": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=0",)), "    :: WAITS_FOR_GONE || ", "    :: ", STUCK
    ),
    "a process that is late fails the job": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=0",)), "    :: WAITS_FOR_GONE || ", "    :: !posted[BEFORE(me)] || "
    ),
    "a process at its end fails those that need nothing more of it": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=0",)),
        "  (((dead[BEFORE(me)] || at_end[BEFORE(me)]) && WAITS_FOR_BEFORE) || \\\n",
        "  ((dead[BEFORE(me)] || at_end[BEFORE(me)]) || \\\n",
    ),
    "a process marks its end while its operation is under way": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=0",)),
        "  posted[me] = true\n",
        "  posted[me] = true;\n  at_end[me] = true\n",
    ),
    "nobody looks for processes at their end": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=0", "FATE=AT_END", "VICTIM=1")),
        ":: else -> at_end[me] = true\n",
        ":: else -> skip\n",
        STUCK,
    ),
    "nobody looks for processes that stay stopped": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=0", "FATE=STOPPED", "VICTIM=1")),
        "WAITS_FOR_GONE || WAITS_FOR_STOPPED || ",
        "WAITS_FOR_GONE || ",
        STUCK,
    ),
    "nobody looks for another program": Mistake(
        Bounds("cpu/failure.pml", ("DEADLINES=0", "FATE=ELSEWHERE", "VICTIM=1")),
        " || WAITS_FOR_ANOTHER_PROGRAM ->\n",
        " ->\n",
        STUCK,
    ),
    "mail is not taken back": Mistake(REVOKE, "  state = REVOKED;\n  reading == 0;\n", "  reading == 0;\n"),
    "nobody waits for the reader": Mistake(REVOKE, "  reading == 0;\n", ""),
    "mail that is taken back is free at once": Mistake(REVOKE, "  state = REVOKED;\n", "  state = 0;\n"),
    "mail that is taken back is found": Mistake(REVOKE, "found != 0 && found != REVOKED", "found != 0"),
    "a reader takes the state of mail after it has found it": Mistake(
        REVOKE, "  reading++;\n", "  found = state;\n  reading++;\n"
    ),
    "a reader looks at the state before it says that it reads": Mistake(
        REVOKE,
        "  reading++;\n  if\n  :: state != found -> reading--\n  :: else ->\n",
        "  if\n  :: state != found -> skip\n  :: else ->\n     reading++;\n",
    ),
    "a reader says what it has taken when it no longer counts": Mistake(
        REVOKE, "     taken = consumed;\n     reading--\n", "     reading--;\n     taken = consumed\n"
    ),
    "readers are not counted": Mistake(REVOKE, "     reading--\n", "     reading = 0\n"),
    # Waits.
    "a deadline counts from the start": Mistake(
        WAITS_DEADLINE, ":: made_progress -> time = 0\n", ":: false -> time = 0\n"
    ),
    "progress once is progress for ever": Mistake(WAITS, "    made_progress = false\n", "    skip\n"),
    "a process waits while it is away": Mistake(
        WAITS_DEADLINE,
        "(time + passed > LONG -> LONG : time + passed)",
        "(was_away -> LONG : (time + passed > LONG -> LONG : time + passed))",
    ),
    "a process that was away gives up without another poll": Mistake(
        WAITS_DEADLINE, "is_past && was_away && !polls_once_more;", "false;"
    ),
    "a late process is given up": Mistake(WAITS, "is_past = DEADLINE > 0 && ", "is_past = "),
    "a process that is stopped is given up at once": Mistake(
        WAITS, "stopped_for >= LATE_AFTER && !gives_up", "stopped_for + 1 >= LATE_AFTER && !gives_up"
    ),
    "two short stops count as a long one": Mistake(
        WAITS, ":: else -> saw_stopped = false; stopped_for = 0", ":: else -> skip"
    ),
    "a process that stays stopped is waited for": Mistake(
        WAITS, "saw_stopped = true; stopped_for = 0", "saw_stopped = false; stopped_for = 0"
    ),
    "a process that has gone is waited for": Mistake(WAITS, "  :: gone && WAITS ->", "  :: gone && WAITS && false ->"),
    "a process that has gone is given up before its records are searched": Mistake(
        WAITS_COPIES, "     :: !has_searched -> has_searched", "     :: false -> has_searched"
    ),
    "a process that has gone is given up without another poll": Mistake(
        WAITS_COPIES,
        "has_searched = true; Search(); fault = false\n",
        "has_searched = true; Search(); fault = false; assert(is_lost); gives_up = true\n",
    ),
    "records are searched once": Mistake(
        WAITS,
        "  :: time >= FIRST_SEARCH && !gives_up ->\n",
        "  :: time >= FIRST_SEARCH && !gives_up && !has_searched ->\n     has_searched = true;\n",
    ),
    "a process that has not begun is in another program": Mistake(
        WAITS, "    :: elsewhere -> fault", "    :: !has_begun -> fault"
    ),
    "ids of copies are not learned": Mistake(
        WAITS_COPIES, "    knows_id = knows_id || has_begun;\n", "    knows_id = knows_id || false;\n"
    ),
    "lines come at equal distance": Mistake(WAITS, "tell_at = 2 * time\n", "tell_at = time + LATE_AFTER - 1\n"),
    "a line about a later wait is due when one about the first would be": Mistake(
        WAITS, "  :: time < LATE_AFTER -> tell_at = LATE_AFTER\n", "  :: time < LATE_AFTER -> skip\n"
    ),
}
