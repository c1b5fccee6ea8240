"""Mistakes planted in the models of the GPU path."""

from __future__ import annotations

from mistakes import STUCK, Mistake
from spin_checks import Bounds

RINGS = Bounds("gpu/rings.pml")
COPIED_RINGS = Bounds("gpu/rings.pml", ("COPIES=1",))
LANES = Bounds("gpu/lanes.pml", ("OPERATIONS=4",))
LANES_MOVE = Bounds("gpu/lanes.pml", ("STEP=0", "OPERATIONS=2", "CHUNKS=4"))
LANES_BROADCAST = Bounds("gpu/lanes.pml", ("FIRST=1", "STEP=0", "OPERATIONS=2", "CHUNKS=4"))
LANES_OF_ONE_CHUNK = Bounds("gpu/lanes.pml", ("FIRST=1", "STEP=0", "OPERATIONS=8", "CHUNKS=1"))
LANES_TWO_SHOT = Bounds("gpu/lanes.pml", ("FIRST=2", "STEP=0", "OPERATIONS=2", "CHUNKS=4"))
LANES_SHARED = Bounds("gpu/lanes.pml", ("SHARES=1", "AHEAD=3", "OPERATIONS=2"))
LANES_SHARED_AND_NOT = Bounds("gpu/lanes.pml", ("SHARES=2", "FIRST=1", "OPERATIONS=5"))
SWITCH = Bounds("gpu/multimem.pml")
SWITCH_BROADCAST = Bounds("gpu/multimem.pml", ("FIRST=3", "STEP=3", "CHUNKS=3"))
SWITCH_REDUCE = Bounds("gpu/multimem.pml", ("STEP=0", "OPERATIONS=2", "CHUNKS=6"))
SWITCH_GATHER = Bounds("gpu/multimem.pml", ("FIRST=1", "STEP=0", "OPERATIONS=2", "CHUNKS=6"))
PACKETS = Bounds("gpu/packets.pml")
PACKETS_BOTH = Bounds("gpu/packets.pml", ("ALL_BOTH=1",))
SPLIT = Bounds("gpu/split.pml")
SPLIT_LIFO = Bounds("gpu/split.pml", ("ORDER=LIFO", "ROUND=9"))
SPLIT_MAY_FAIL = Bounds("gpu/split.pml", ("MAY_FAIL=1", "PERMUTES=3"))
SPLIT_BLOCKS = Bounds("gpu/split.pml", ("BLOCKS=2", "SLOTS=1", "ROUND=9", "PERMUTES=3"))

GPU_MISTAKES = {
    # Rings.
    "a put waits for a credit less": Mistake(RINGS, "credit[pe] >= awaited", "credit[pe] + HALF >= awaited"),
    "a send stream relies on the other one's wait for credit": Mistake(
        RINGS, "credit[pe] >= awaited", "message % SEND_STREAMS == 1 || credit[pe] >= awaited"
    ),
    "a slot is used again a half too early": Mistake(RINGS, "> SLOTS + awaited[", "> SLOTS + HALF + awaited["),
    "a credit does not wait for the copy": Mistake(
        RINGS, "atomic { Ordered(s); flight[s].credit = received }", "flight[s].credit = received"
    ),
    "a signal does not wait for its put": Mistake(
        RINGS,
        "atomic { Ordered(s); flight[s].arrived = sent + 1 }",
        "atomic { flight[s].arrived == 0 -> flight[s].arrived = sent + 1 }",
    ),
    "a copied signal does not wait for its put": Mistake(
        COPIED_RINGS,
        "atomic { Ordered(s); flight[s].arrived = sent + 1 }",
        "atomic { flight[s].arrived == 0 -> flight[s].arrived = sent + 1 }",
    ),
    "a wait stands before the put in a hardware queue": Mistake(
        Bounds("gpu/rings.pml", ("QUEUES=1",)),
        "     Send(pe);\n     sent++;\n     Receive(pe)\n",
        "     Receive(pe);\n     Send(pe);\n     sent++\n",
        STUCK,
    ),
    "a credit lies in a batch behind another stream's wait for credit": Mistake(
        Bounds("gpu/rings.pml", ("QUEUES=1", "CHUNKS=7", "MESSAGES=11")),
        "     FlushReceives(pe);\n",
        "     skip;\n",
        STUCK,
    ),
    # Lanes.
    "a lane does not wait for empty slots": Mistake(LANES_BROADCAST, "     AwaitPeers(true, awaited);\n", ""),
    "a pair that moves has three slots": Mistake(LANES_MOVE, "#define SLOTS 4\n", "#define SLOTS 3\n", STUCK),
    "the first message of a move waits for nothing": Mistake(
        LANES_OF_ONE_CHUNK,
        "     AwaitPeers(true, awaited);\n",
        "     if :: arrived_last > 0 -> AwaitPeers(true, awaited) :: else -> skip fi;\n",
    ),
    "a reduction waits for no more than a move": Mistake(
        LANES_TWO_SHOT,
        "  AwaitPeers(true, arrived_last);\n",
        "  awaited = (arrived_last > 1 -> arrived_last - 1 : 0);\n  AwaitPeers(true, awaited);\n",
    ),
    "a pair that reduces has three slots": Mistake(LANES_TWO_SHOT, "#define SLOTS 4\n", "#define SLOTS 3\n"),
    "a lane sends results before it has heard of the operands behind them": Mistake(
        LANES_TWO_SHOT, "     AwaitPeers(true, posted);\n     CopyIn();", "     CopyIn();"
    ),
    "a lane takes its results for operands": Mistake(
        LANES_TWO_SHOT, "Take(arrived_last - (arrived_last > 1 -> 1 : 0))", "Take(arrived_last)"
    ),
    "a lane takes results that it has not awaited": Mistake(
        LANES_TWO_SHOT, "  :: arrived_last > 1 -> Take(arrived_last)\n", "  :: arrived_last > 1 -> Take(posted)\n"
    ),
    "a lane waits for a message less": Mistake(
        LANES,
        "WORD(me, pe, messages[pe] + message) == messages[pe] + message ->",
        "WORD(me, pe, messages[pe] + message) + 1 >= messages[pe] + message ->",
    ),
    "a word is not released behind its message": Mistake(
        LANES, "         flying[PAIR(peer, me)] == 0 -> WORD", "         true -> WORD"
    ),
    "a lane takes what has not arrived": Mistake(LANES, "     AwaitPeers(false, arrived_last);\n", ""),
    "a kernel forgets how many messages it sent": Mistake(LANES, "    Settle(1);\n", "", STUCK),
    "a PE that sends nothing posts nothing": Mistake(
        LANES, "    :: IS_PEER(peer) ->\n       atomic {", "    :: SENDS_TO(peer) ->\n       atomic {", STUCK
    ),
    "a lane does not look for orders of the watchdog": Mistake(
        Bounds("gpu/lanes.pml", ("MAY_FAIL=1", "OPERATIONS=2", "CHUNKS=1")),
        "  :: order[me] -> goto trapped\n",
        "",
        STUCK,
    ),
    "shared slots are filled without a message that says that they are empty": Mistake(
        LANES_SHARED, "#define WITHOUT_DATA (FORM(operation) == SHARED -> 1 : 0)", "#define WITHOUT_DATA 0"
    ),
    "the first chunk in shared slots waits for nothing": Mistake(
        LANES_SHARED,
        "     AwaitPeers(true, awaited);\n",
        "     if :: arrived_last != WITHOUT_DATA -> AwaitPeers(true, awaited) :: else -> skip fi;\n",
    ),
    "the first chunk in shared slots waits for the kernel before": Mistake(
        LANES_SHARED, "arrived_last * WITHOUT_DATA)", "0)"
    ),
    "the first chunk in shared slots does not wait for its receiver": Mistake(
        LANES_SHARED,
        "     AwaitPeers(true, awaited);\n",
        "     AwaitPeers((arrived_last != WITHOUT_DATA), awaited);\n",
    ),
    "a message without data waits for nothing": Mistake(
        Bounds("gpu/lanes.pml", ("SHARES=1", "OPERATIONS=2", "CHUNKS=3")),
        "     AwaitPeers(true, awaited);\n",
        "     if :: arrived_last >= WITHOUT_DATA -> AwaitPeers(true, awaited) :: else -> skip fi;\n",
        STUCK,
    ),
    "a lane takes a message without data": Mistake(
        LANES_SHARED, "  :: turn > WITHOUT_DATA ->\n", "  :: turn != 0 ->\n"
    ),
    "shared slots lie among those of pairs": Mistake(
        LANES_SHARED_AND_NOT, "(is_shared -> at : from)", "(is_shared -> 0 : from)"
    ),
    # Packets.
    "a packet is torn": Mistake(
        PACKETS_BOTH, "  :: atomic { is_flying[place] -> Deliver() }", "  :: is_flying[place] -> Deliver()"
    ),
    # Places of the staging memory.
    "the staging memory has three places": Mistake(SWITCH_GATHER, "#define PLACES 4\n", "#define PLACES 3\n"),
    "the staging memory of reductions has two places": Mistake(
        SWITCH_REDUCE, "#define PLACES 4\n", "#define PLACES 2\n"
    ),
    "places begin anew with each kernel": Mistake(SWITCH, "(chunk) % PLACES)", "(chunk) % CHUNKS)"),
    "a gather does not wait for the kernel before": Mistake(
        Bounds("gpu/multimem.pml", ("FIRST=3", "STEP=2", "CHUNKS=3")),
        "     AwaitPeers(true, awaited);\n",
        "     if :: FORM(operation) != GATHER -> AwaitPeers(true, awaited) :: else -> skip fi;\n",
        STUCK,
    ),
    "a gather waits for one message less": Mistake(
        SWITCH_GATHER, "(before > 1 -> before - 1 : 0)", "(before > 2 -> before - 2 : 0)", STUCK
    ),
    "a gather takes what it has not awaited": Mistake(SWITCH_GATHER, "     AwaitPeers(false, before);\n", ""),
    "the switch reduces what is not staged": Mistake(
        SWITCH, "  :: turn != 0 -> AwaitPeers(true, turn)\n", "  :: turn != 0 -> skip\n"
    ),
    "results are taken before all have stored them": Mistake(
        SWITCH, "turn > 1 -> Take(used + turn - 2)", "turn > 1 -> Take(used + turn - 1)"
    ),
    "a message overtakes a store to all": Mistake(SWITCH, "atomic { ALL_ARE_THERE -> WORD", "atomic { true -> WORD"),
    "a reduction does not wait for the kernel before": Mistake(
        SWITCH_BROADCAST, "  :: turn == 0 -> AwaitPeers(true, 0)\n", "  :: turn == 0 -> skip\n", STUCK
    ),
    "a packet has no number": Mistake(
        PACKETS_BOTH,
        "  Settle(1);\n  if\n  :: LARGE(message) -> Settle(2)",
        "  AwaitHead();\n  if\n  :: assert(slot[AT(me, message, 1)].bytes == operation + 1); false -> Settle(2)",
    ),
    "a message takes the number of the one before": Mistake(
        PACKETS, "  message++;\n", "  message = (operation == 4 -> message : message + 1);\n"
    ),
    "a PE does not wait until its slot is empty": Mistake(
        PACKETS, "  :: awaits -> AwaitHead()\n", "  :: awaits -> skip\n", STUCK
    ),
    "a PE that receives nothing notes that it has heard": Mistake(
        PACKETS, "  :: RECEIVES -> AwaitHead(); awaits = false\n  :: else -> skip\n", "  :: true -> awaits = false\n"
    ),
    "a pair has one slot of packets": Mistake(PACKETS, "#define SLOTS 2\n", "#define SLOTS 1\n", STUCK),
    "slots are never renewed": Mistake(PACKETS_BOTH, "  :: message % (WRAP / 2) < 2 -> Renew()\n", ""),
    "one of two slots is renewed": Mistake(PACKETS_BOTH, "message % (WRAP / 2) < 2", "message % (WRAP / 2) < 1"),
    "slots are renewed with the awaited number": Mistake(
        PACKETS_BOTH, "NUMBER(message + WRAP - 2), 0)", "NUMBER(message), 0)"
    ),
    "slots are renewed behind the message": Mistake(
        PACKETS_BOTH,
        "     :: SENDS -> Send()\n",
        "     :: SENDS -> Send(); if :: message % (WRAP / 2) < 2 -> Renew() :: else -> skip fi\n",
        STUCK,
    ),
    "a PE with nothing to send sends no head": Mistake(
        PACKETS,
        "  Store(AT(PEER, message, 0), NUMBER(message), operation + 1)\n",
        "  if :: SENDS -> Store(AT(PEER, message, 0), NUMBER(message), operation + 1) :: else -> skip fi\n",
        STUCK,
    ),
    "a lane that waits for a packet does not look for orders": Mistake(
        Bounds("gpu/packets.pml", ("MAY_FAIL=1", "OPERATIONS=2")),
        "    :: order[me] -> goto trapped\n",
        "",
        STUCK,
    ),
    # Split permutes.
    "a start does not wait until its slot is empty": Mistake(SPLIT, "             AwaitConsumed();\n", ""),
    "a start waits for the message before, not for that of its slot": Mistake(
        SPLIT, "consumed[AT(me, part)] >= number - SLOTS", "consumed[AT(me, part)] >= number - 1", STUCK
    ),
    "a start waits for an older message": Mistake(
        SPLIT, "consumed[AT(me, part)] >= number - SLOTS", "consumed[AT(me, part)] + SLOTS >= number - SLOTS"
    ),
    "a start waits until exactly the message before has been taken, and not a later one": Mistake(
        SPLIT_BLOCKS, "consumed[AT(me, part)] >= number - SLOTS", "consumed[AT(me, part)] == number - SLOTS", STUCK
    ),
    "a block of a start waits for the same block, which the message before did not have": Mistake(
        SPLIT_BLOCKS,
        "(part : 0 .. blocks_before[MESSAGE(TO(me))] - 1)",
        "(part : block .. (number > SLOTS -> block : block - 1))",
        STUCK,
    ),
    "a block of a start waits for no other block": Mistake(
        SPLIT_BLOCKS,
        "(part : 0 .. blocks_before[MESSAGE(TO(me))] - 1)",
        "(part : block .. (blocks_before[MESSAGE(TO(me))] > block -> block : block - 1))",
    ),
    "a start waits for as many blocks as it has itself": Mistake(
        SPLIT_BLOCKS, "] = blocks[SLOT_OF(direction, messages[direction])];", "] = NUM_BLOCKS;", STUCK
    ),
    "a done does not wait for its message": Mistake(SPLIT, "             AwaitArrived();\n", ""),
    "a done takes any message for its own": Mistake(
        SPLIT, "arrived[AT(me, block)] == number", "arrived[AT(me, block)] > 0"
    ),
    "a done waits for one message more": Mistake(
        SPLIT, "arrived[AT(me, block)] == number", "arrived[AT(me, block)] > number", STUCK
    ),
    "a message is announced before it is there": Mistake(
        SPLIT, "  flying[ON_WAY(NEXT(me), block)] == 0 && flying[ON_WAY(NEXT(me), LAST_PART)] == 0;\n", ""
    ),
    "a slot is given back before it is read": Mistake(
        SPLIT,
        "             CopyOut()\n          :: else -> skip\n          fi\n     };\n",
        "             Release()\n          :: else -> skip\n          fi\n     };\n"
        "     atomic { if :: number != 0 -> CopyOut() :: else -> skip fi };\n",
    ),
    "a message has a slot though the done of the one before may come later": Mistake(
        SPLIT_LIFO, "is_wanted && !in_use[SLOT_OF(direction, messages[direction] + 1)]", "is_wanted", STUCK
    ),
    "a slot is free again from the start on": Mistake(
        SPLIT_LIFO,
        "  Claim(TO(pe), SENDS(pe))\n",
        "  Claim(TO(pe), SENDS(pe));\n  Finish(TO(pe));\n  Finish(FROM(pe))\n",
        STUCK,
    ),
    "a sender's slot is free again from the start on": Mistake(
        SPLIT, "  Claim(TO(pe), SENDS(pe))\n", "  Claim(TO(pe), SENDS(pe));\n  Finish(TO(pe))\n", STUCK
    ),
    "a message without a slot is counted": Mistake(
        Bounds("gpu/split.pml", ("PERMUTES=5", "ORDER=LIFO")),
        "  :: else -> skip\n  fi\n}\n\n/* = SplitPermutes::Start ",
        "  :: else -> messages[direction] = messages[direction] + is_wanted\n  fi\n}\n\n/* = SplitPermutes::Start ",
        STUCK,
    ),
    "a done does not wait for the lanes": Mistake(SPLIT, "          Join();\n", ""),
    "a start that waits does not look for orders": Mistake(
        SPLIT_MAY_FAIL,
        "number - SLOTS -> skip\n    :: order[me] -> goto trapped\n",
        "number - SLOTS -> skip\n",
        STUCK,
    ),
    "a done that waits does not look for orders": Mistake(
        SPLIT_MAY_FAIL, "== number -> skip\n  :: order[me] -> goto trapped\n", "== number -> skip\n", STUCK
    ),
}
