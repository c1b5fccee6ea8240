/* The staging memory of the NVLink switch: what PEs store to all through multicast addresses, and when they may.
 *
 * Each PE runs OPERATIONS operations on all PEs; FORM says what each is. A PE has one lane, with PLACES places. A chunk
 * is numbered from 0 over all operations. A store to all is one for each PE, which becomes visible later, in any order,
 * unless a release waits for it.
 */
#ifndef FIRST
#define FIRST 0
#endif
#ifndef STEP
#define STEP 1
#endif
#define FORM(operation) ((FIRST + STEP * (operation)) % 4)
#define ALL_REDUCE 0
#define GATHER 1
#define REDUCE_SCATTER 2
#define BROADCAST 3 /* through slots, which are not here; PE 0 sends */
#ifndef OPERATIONS
#define OPERATIONS 4
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef PES
#define PES 2
#endif
#define PLACES 4
#define SLOTS 4
#define PAIR(at, from) ((at) * PES + (from))
#define WORD(at, from, message) arrived[PAIR(at, from) * SLOTS + (message) % SLOTS]
#define PART(at, chunk, member) part[((at) * PLACES + (chunk) % PLACES) * PES + (member)]
#define OPERAND(chunk) (2 * (chunk) + 1)
#define RESULT(chunk) (2 * (chunk) + 2)

byte arrived[PES * PES * SLOTS]; /* the message */
byte part[PES * PLACES * PES];   /* by PE, place and member */
byte flying[PES * PES];          /* a result to a PE from another or itself */
byte running = PES;

#define IS_PEER(pe) ((pe) != me && (FORM(operation) != BROADCAST || me == 0 || (pe) == 0))
#define RECEIVES_FROM(pe) (IS_PEER(pe) && (FORM(operation) != BROADCAST || me != 0))
#define ALL_ARE_THERE (flying[PAIR(0, me)] == 0 && flying[PAIR(1, me)] == 0 && flying[PAIR(PES - 1, me)] == 0)

/* = LaneBase::Begin (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline Begin() {
  atomic {
    posted = 0;
    turn = 0
  }
}

/* = Lane::End (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = Lane::CountStaged (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline End() {
  atomic {
    for (peer : 0 .. PES - 1) {
      messages[peer] = messages[peer] + (IS_PEER(peer) -> posted : 0)
    }
    used = used + (FORM(operation) == BROADCAST -> 0 : posted - (FORM(operation) == GATHER -> 0 : 1));
    operation++
  }
}

/* = Lane::AwaitPeers (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline AwaitPeers(all, message) {
  for (peer : 0 .. PES - 1) {
    if
    :: IS_PEER(peer) && (all || RECEIVES_FROM(peer)) ->
       WORD(me, peer, messages[peer] + message) == messages[peer] + message
    :: else -> skip
    fi
  }
}

/* = Lane::Post (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline Post() {
  for (peer : 0 .. PES - 1) {
    if
    :: IS_PEER(peer) ->
       atomic { ALL_ARE_THERE -> WORD(peer, me, messages[peer] + posted + 1) = messages[peer] + posted + 1 }
    :: else -> skip
    fi
  }
  posted++
}

/* = MultimemStore (xla_patch/nvshmem/gpu/kernels/multimem.cuh) */
inline StoreToAll(value) {
  atomic {
    for (peer : 0 .. PES - 1) {
      flying[PAIR(peer, me)] = value
    }
  }
}

/* = Staging::CopyOperand (xla_patch/nvshmem/gpu/kernels/multimem.cuh) */
inline Stage(chunk) {
  for (peer : 0 .. PES - 1) {
    PART(me, chunk, peer) = OPERAND(chunk)
  }
}

/* = Staging::Reduce (xla_patch/nvshmem/gpu/kernels/multimem.cuh) */
inline Reduce(chunk) {
  for (peer : 0 .. PES - 1) {
    assert(PART(peer, chunk, me) == OPERAND(chunk)) /* staged, and not overwritten */
  }
  if
  :: FORM(operation) == ALL_REDUCE -> StoreToAll(RESULT(chunk))
  :: else -> skip
  fi
}

/* = Staging::CopyResults (xla_patch/nvshmem/gpu/kernels/multimem.cuh) */
inline Take(chunk) {
  for (peer : 0 .. PES - 1) {
    assert(PART(me, chunk, peer) == RESULT(chunk) || (FORM(operation) == GATHER && peer == me))
  }
}

/* = ReduceInSwitch (xla_patch/nvshmem/gpu/kernels/multimem.cuh) */
inline ReduceInSwitch() {
  if
  :: turn == 0 -> AwaitPeers(true, 0)
  :: else -> skip
  fi;
  if
  :: turn < CHUNKS -> Stage(used + turn)
  :: else -> skip
  fi;
  if
  :: turn != 0 -> AwaitPeers(true, turn)
  :: else -> skip
  fi;
  if
  :: turn != 0 && turn <= CHUNKS -> Reduce(used + turn - 1)
  :: else -> skip
  fi;
  if
  :: turn <= CHUNKS -> Post()
  :: else -> skip
  fi;
  if
  :: FORM(operation) == ALL_REDUCE && turn > 1 -> Take(used + turn - 2)
  :: else -> skip
  fi
}

/* = RunMove (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = GatherInSwitch (xla_patch/nvshmem/gpu/kernels/multimem.cuh) */
inline Move() {
  before = posted;
  if
  :: turn < CHUNKS ->
     awaited = (before > 1 -> before - 1 : 0);
     AwaitPeers(true, awaited);
     if
     :: FORM(operation) == GATHER -> StoreToAll(RESULT(used + turn))
     :: else -> skip
     fi;
     Post()
  :: else -> skip
  fi;
  if
  :: turn != 0 ->
     AwaitPeers(false, before);
     if
     :: FORM(operation) == GATHER -> Take(used + before - 1)
     :: else -> skip
     fi
  :: else -> skip
  fi
}

/* environment: a PE has ended */
inline EndProcess() {
  running--
}

/* = switch_reduction (xla_patch/nvshmem/gpu/kernels/kernels.cu) */
/* = switch_gather (xla_patch/nvshmem/gpu/kernels/kernels.cu) */
proctype Kernels(byte me) {
  byte operation, turn, peer;
  byte posted, before, awaited, used;
  byte messages[PES];
  do
  :: operation == OPERATIONS -> break
  :: operation < OPERATIONS ->
     Begin();
     do
     :: turn <= CHUNKS + (FORM(operation) == ALL_REDUCE -> 1 : 0) ->
        if
        :: FORM(operation) == ALL_REDUCE || FORM(operation) == REDUCE_SCATTER -> ReduceInSwitch()
        :: else -> Move()
        fi;
        turn++
     :: else -> break
     od;
     End()
  od;
  EndProcess()
}

/* environment: a store becomes visible */
inline Deliver() {
  PART(to, (flying[PAIR(to, from)] - 1) / 2, from) = flying[PAIR(to, from)];
  flying[PAIR(to, from)] = 0
}

/* environment: the switch, from a PE to another or itself */
proctype Link(byte from, to) {
  do
  :: atomic { flying[PAIR(to, from)] != 0 -> Deliver() }
  :: running == 0 && flying[PAIR(to, from)] == 0 -> break
  od
}

/* environment: the PEs enqueue the same operations, and end */
init {
  byte i, j;
  atomic {
    for (i : 0 .. PES - 1) {
      run Kernels(i);
      for (j : 0 .. PES - 1) {
        run Link(i, j)
      }
    }
  }
  _nr_pr == 1
}
