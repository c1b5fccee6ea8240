/* The kernels of collectives: messages between the lanes of three PEs, and a watchdog that ends them.
 *
 * Each PE runs OPERATIONS operations; FORM says what each is. A PE has one lane, and a message is one store into a
 * slot, which becomes visible later unless a release waits for it. With MAY_FAIL PE VICTIM may die at any point.
 *
 * A pair has slots of its own, and a PE has others that all who send to it share, each in its turn.
 */
#ifndef FIRST
#define FIRST 0
#endif
#ifndef STEP
#define STEP 1
#endif
#ifndef SHARES
#define SHARES 99 /* each SHARES-th operation is SHARED; FIRST and STEP say what the others are */
#endif
#define IS_SHARED(operation) (((operation) + 1) % SHARES == 0)
#define FORM(operation) (IS_SHARED(operation) -> SHARED : (FIRST + STEP * (operation)) % 4)
#define ALL_TO_ALL 0
#define BROADCAST 1 /* PE 0 sends */
#define TWO_SHOT 2  /* PE 2 is not in the group */
#define PERMUTE 3   /* PE 0 to PE 1 to PE 2: one only sends, one only receives */
#define SHARED 4    /* through shared slots; WAY says from whom to whom */
#ifndef FIRST_WAY
#define FIRST_WAY 0
#endif
#define WAY ((FIRST_WAY + operation / SHARES) % 5)
#define THERE 0 /* PE 0 to PE 1 to PE 2 */
#define BACK 1  /* PE 2 to PE 1 to PE 0 */
#define BACK_AGAIN 2
#define PAIR_0_1 3 /* they send to each other, and PE 2 is not in the group */
#define PAIR_1_2 4 /* likewise without PE 0 */
#ifndef OPERATIONS
#define OPERATIONS 3
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef MAY_FAIL
#define MAY_FAIL 0
#endif
#ifndef AHEAD
#define AHEAD 0 /* PEs 0 and 1 have exchanged up to so many messages before, so that numbers of pairs differ */
#endif
#define VICTIM 1
#define PES 3
#define SLOTS 4
#define PAIR(at, from) ((at) * PES + (from))
#define VALUE(from, number) ((from) * 64 + (number) + 1)

byte arrived[36]; /* by pair and message mod SLOTS: the message */
byte sent[9];     /* by pair */
byte slot[36]; /* by pair and message mod SLOTS; 0: consumed. The shared ones are those of a PE and itself */
byte flying[9];
bool dead[PES];
bool order[PES]; /* the watchdog tells the kernels of the PE to end */
byte running = PES;

/* What flies: the number of a message, and whether its slot is shared. */
#define FLIGHT(is_shared, message) ((message) + (is_shared -> 64 : 0))
#define TO_SHARED(flight) ((flight) >= 64)
#define MESSAGE(flight) ((flight) % 64)

#define SLOT(at, from, is_shared, message) slot[PAIR(at, (is_shared -> at : from)) * SLOTS + (message) % SLOTS]
#define WORD(at, from, message) arrived[PAIR(at, from) * SLOTS + (message) % SLOTS]

/* Who is in the group of PE me, whom it sends to, and whom it receives from. */
#define IS_WAY(way) (FORM(operation) == SHARED && WAY == way)
#define IS_BACK (IS_WAY(BACK) || IS_WAY(BACK_AGAIN))
#define IS_PERMUTE (FORM(operation) == PERMUTE || IS_WAY(THERE) || IS_BACK)
#define TARGET(pe) (IS_BACK -> (pe) - 1 : (pe) + 1)
#define IN_GROUP(pe) \
  (((pe) != 2 || (FORM(operation) != TWO_SHOT && !IS_WAY(PAIR_0_1))) && ((pe) != 0 || !IS_WAY(PAIR_1_2)))
#define IS_PEER(pe) \
  ((pe) != me && IN_GROUP(pe) && (FORM(operation) != BROADCAST || me == 0 || (pe) == 0) && \
   (!IS_PERMUTE || (pe) == me + 1 || me == (pe) + 1))
#define SENDS_TO(pe) \
  (IS_PEER(pe) && (FORM(operation) != BROADCAST || me == 0) && (!IS_PERMUTE || (pe) == TARGET(me)))
#define RECEIVES_FROM(pe) \
  (IS_PEER(pe) && (FORM(operation) != BROADCAST || me != 0) && (!IS_PERMUTE || me == TARGET(pe)))

/* Messages that a kernel posts first, without data. */
#define WITHOUT_DATA (FORM(operation) == SHARED -> 1 : 0)

/* = LaneBase::Begin (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline Begin() {
  atomic {
    messages[0] = sent[PAIR(me, 0)];
    messages[1] = sent[PAIR(me, 1)];
    messages[2] = sent[PAIR(me, 2)];
    posted = 0;
    turn = 0
  }
}

/* = Lane::Settle (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline Settle(pe) {
  sent[PAIR(me, pe)] = messages[pe] + (IS_PEER(pe) -> posted : 0)
}

/* = Lane::End (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline End() {
  atomic {
    Settle(0);
    Settle(1);
    Settle(2);
    operation++
  }
}

/* = Lane::Await (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline Await(pe, message) {
  if
  :: WORD(me, pe, messages[pe] + message) == messages[pe] + message -> skip
  :: order[me] -> goto trapped
  fi
}

/* = Lane::AwaitPeers (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline AwaitPeers(all, message) {
  for (peer : 0 .. PES - 1) {
    if
    :: IS_PEER(peer) && (all || RECEIVES_FROM(peer)) -> Await(peer, message)
    :: else -> skip
    fi
  }
}

/* = Send (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = CopyToAll (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = Lane::SlotAt (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline CopyIn() {
  for (peer : 0 .. PES - 1) {
    if
    :: SENDS_TO(peer) -> flying[PAIR(peer, me)] = FLIGHT(IS_SHARED(operation), messages[peer] + posted + 1)
    :: else -> skip
    fi
  }
}

/* = Lane::Post (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = Lane::PostTo (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = StoreRelease (xla_patch/nvshmem/gpu/kernels/platform.cuh) */
inline Post() {
  for (peer : 0 .. PES - 1) {
    if
    :: IS_PEER(peer) ->
       atomic {
         flying[PAIR(peer, me)] == 0 -> WORD(peer, me, messages[peer] + posted + 1) = messages[peer] + posted + 1
       }
    :: else -> skip
    fi
  }
  posted++
}

/* = Take (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = Lane::OwnSlot (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = ReduceArrivals (xla_patch/nvshmem/gpu/kernels/kernels.cu) */
inline Take(message) {
  for (peer : 0 .. PES - 1) {
    if
    :: RECEIVES_FROM(peer) ->
       atomic {
         /* Not lost, and not taken before. */
         assert(SLOT(me, peer, IS_SHARED(operation), messages[peer] + message) ==
                VALUE(peer, messages[peer] + message));
         SLOT(me, peer, IS_SHARED(operation), messages[peer] + message) = 0
       }
    :: else -> skip
    fi
  }
}

/* = RunMove (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline Move() {
  arrived_last = posted;
  if
  :: turn < CHUNKS + WITHOUT_DATA ->
     awaited = (arrived_last > 1 -> arrived_last - 1 : arrived_last * WITHOUT_DATA);
     AwaitPeers(true, awaited);
     if
     :: arrived_last >= WITHOUT_DATA -> CopyIn()
     :: else -> skip
     fi;
     Post()
  :: else -> skip
  fi;
  if
  :: turn > WITHOUT_DATA ->
     AwaitPeers(false, arrived_last);
     Take(arrived_last)
  :: else -> skip
  fi
}

/* = RunReduction (xla_patch/nvshmem/gpu/kernels/kernels.cu) */
inline Reduction() {
  arrived_last = posted;
  AwaitPeers(true, arrived_last);
  if
  :: turn < CHUNKS -> CopyIn(); Post()
  :: else -> skip
  fi;
  if
  :: turn != 0 && turn <= CHUNKS ->
     Take(arrived_last - (arrived_last > 1 -> 1 : 0));
     AwaitPeers(true, posted);
     CopyIn(); /* what it has reduced */
     Post()
  :: else -> skip
  fi;
  if
  :: arrived_last > 1 -> Take(arrived_last)
  :: else -> skip
  fi
}

/* environment: a process has ended, with its GPU's streams */
inline EndProcess() {
  running--
}

/* = move (xla_patch/nvshmem/gpu/kernels/kernels.cu) */
/* = reduce (xla_patch/nvshmem/gpu/kernels/kernels.cu) */
proctype Kernels(byte me) {
  byte operation, turn, peer;
  byte posted, arrived_last, awaited;
  byte messages[PES];
  do
  :: operation == OPERATIONS -> break
  :: operation < OPERATIONS && !IN_GROUP(me) -> operation++
  :: operation < OPERATIONS && IN_GROUP(me) ->
     Begin();
     do
     :: turn <= CHUNKS + (FORM(operation) == TWO_SHOT -> 1 : WITHOUT_DATA) ->
        if
        :: dead[me] -> goto trapped
        :: !dead[me] && FORM(operation) == TWO_SHOT -> Reduction()
        :: !dead[me] && FORM(operation) != TWO_SHOT -> Move()
        fi;
        turn++
     :: else -> break
     od;
     End()
  od;
trapped:
  EndProcess()
}

#define FLYING flying[PAIR(to, from)]

/* environment: a store of a kernel becomes visible */
inline Deliver() {
  assert(SLOT(to, from, TO_SHARED(FLYING), MESSAGE(FLYING)) == 0); /* nothing is overwritten */
  SLOT(to, from, TO_SHARED(FLYING), MESSAGE(FLYING)) = VALUE(from, MESSAGE(FLYING));
  FLYING = 0
}

/* environment: the link from a PE to another */
proctype Link(byte from, to) {
  do
  :: atomic { FLYING != 0 -> Deliver() }
  :: running == 0 && FLYING == 0 -> break
  od
}

/* = Watchdog::Report (xla_patch/nvshmem/gpu/watchdog.cc) */
inline Order(pe) {
  order[pe] = true
}

/* environment: a process is killed */
inline Kill(pe) {
  dead[pe] = true;
  order[pe] = true
}

/* = Watchdog::CheckKernels (xla_patch/nvshmem/gpu/watchdog.cc) */
proctype Watchdog(byte pe) {
  if
  :: MAY_FAIL && pe == VICTIM -> Kill(pe)
  :: MAY_FAIL -> Order(pe)
  :: running == 0
  fi
}

/* environment: a PE has exchanged messages with another */
inline Exchange(pe, other, number) {
  sent[PAIR(pe, other)] = number;
  WORD(pe, other, number) = number
}

/* environment: three PEs enqueue the same operations, and end */
init {
  byte i, j;
  atomic {
    select(i : 0 .. AHEAD);
    Exchange(0, 1, i);
    Exchange(1, 0, i);
    for (i : 0 .. PES - 1) {
      run Kernels(i);
      run Watchdog(i);
      for (j : 0 .. PES - 1) {
        if
        :: i != j -> run Link(i, j)
        :: else -> skip
        fi
      }
    }
  }
  _nr_pr == 1;
  for (i : 0 .. 35) {
    assert(slot[i] == 0 || MAY_FAIL)
  }
}
