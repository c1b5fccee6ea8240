/* Split permutes in a ring of PEs: a start's kernel sends, a done's receives, and lanes carry what has no slot.
 *
 * All PEs run one program: any that starts PERMUTES permutes in order, with their dones in ORDER. ROUND permutes go
 * round the ring, then one goes from PE 0 to PE 1 alone, and so on. Each block of a kernel has a part of the slot; but
 * every third permute has one block, with all parts. A store into a part becomes visible later, unless a release waits
 * for it. With MAY_FAIL PEs may die at any point.
 */
#define ANY 0
#define FIFO 1 /* the oldest permute ends first */
#define LIFO 2 /* the youngest one */
#ifndef ORDER
#define ORDER ANY
#endif
#ifndef PERMUTES
#define PERMUTES 4
#endif
#ifndef ROUND
#define ROUND 1
#endif
#ifndef PES
#define PES 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef MAY_FAIL
#define MAY_FAIL 0
#endif
#define NEXT(pe) (((pe) + 1) % PES)
#define LAST(pe) (((pe) + PES - 1) % PES)
#define SENDS(pe) ((pe) == 0 || permute % (ROUND + 1) != ROUND)
#define RECEIVES(pe) SENDS(LAST(pe))
#define NUM_BLOCKS (permute % 3 == 0 -> 1 : BLOCKS)
#define LAST_PART (NUM_BLOCKS == BLOCKS -> block : BLOCKS - 1)

byte program[2 * PERMUTES]; /* by step: a permute, + PERMUTES for its done */
byte begins[PERMUTES];      /* the step of the start */

/* Of the hosts. Both ends number the messages of a direction, from 1, each by itself. */
#define TO(pe) (2 * (pe))
#define FROM(pe) (2 * (pe) + 1)
#define SLOT_OF(owner, number) ((owner) * SLOTS + (number) % SLOTS)
#define MESSAGE(direction) ((direction) * PERMUTES + permute)
byte messages[2 * PES];
bool in_use[2 * PES * SLOTS];
byte blocks[2 * PES * SLOTS];           /* of the last message in the slot */
byte numbers[2 * PES * PERMUTES];       /* 0: no slot */
byte blocks_before[2 * PES * PERMUTES]; /* of the message that the slot had before */
#define LANES_SEND(pe) (SENDS(pe) && numbers[MESSAGE(TO(pe))] == 0)
#define LANES_RECEIVE(pe) (RECEIVES(pe) && numbers[MESSAGE(FROM(pe))] == 0)

/* Of the GPUs. */
#define AT(pe, part) (SLOT_OF(pe, number) * BLOCKS + (part))
#define ON_WAY(pe, part) ((pe) * BLOCKS + (part))
byte arrived[PES * SLOTS * BLOCKS];  /* by receiver, slot and block: a number */
byte consumed[PES * SLOTS * BLOCKS]; /* by sender, likewise */
byte slot[PES * SLOTS * BLOCKS];     /* by receiver, slot and part: the permute + 1, 0: taken */
byte flying[PES * BLOCKS];           /* by receiver and part: the permute + 1 of a store on its way, 0: none */
byte flies_to[PES * BLOCKS];         /* its element of `slot` */
byte ended[PES];                     /* blocks of kernels on XLA's stream */
byte at_lane[PES];                   /* the permute + 1 that the lanes have come to */
byte carried[PES];                   /* that they have ended */
bool order[PES];                     /* the watchdog tells the kernels of the PE to end */
byte running = (BLOCKS + 1) * PES;

/* = SplitPermutes::Claim (xla_patch/thunks/gpu/split_permutes.cc) */
/* = SplitPermutes::Launch (xla_patch/thunks/gpu/split_permutes.cc) */
inline Claim(direction, is_wanted) {
  if
  :: is_wanted && !in_use[SLOT_OF(direction, messages[direction] + 1)] ->
     messages[direction]++;
     in_use[SLOT_OF(direction, messages[direction])] = true;
     numbers[MESSAGE(direction)] = messages[direction];
     blocks_before[MESSAGE(direction)] = blocks[SLOT_OF(direction, messages[direction])];
     blocks[SLOT_OF(direction, messages[direction])] = NUM_BLOCKS
  :: else -> skip
  fi
}

/* = SplitPermutes::Start (xla_patch/thunks/gpu/split_permutes.cc) */
inline Start(pe) {
  Claim(FROM(pe), RECEIVES(pe));
  Claim(TO(pe), SENDS(pe))
}

/* = SplitPermutes::Finish (xla_patch/thunks/gpu/split_permutes.cc) */
inline Finish(direction) {
  if
  :: numbers[MESSAGE(direction)] != 0 -> in_use[SLOT_OF(direction, numbers[MESSAGE(direction)])] = false
  :: else -> skip
  fi
}

/* = SplitLane::AwaitConsumed (xla_patch/nvshmem/gpu/kernels/split.cuh) */
inline AwaitConsumed() {
  /* Another block of this kernel may have sent its part already, and that part may have been taken. */
  for (part : 0 .. blocks_before[MESSAGE(TO(me))] - 1) {
    if
    :: consumed[AT(me, part)] >= number - SLOTS -> skip
    :: order[me] -> goto trapped
    fi
  }
}

/* = SplitLane::AwaitArrived (xla_patch/nvshmem/gpu/kernels/split.cuh) */
inline AwaitArrived() {
  if
  :: arrived[AT(me, block)] == number -> skip
  :: order[me] -> goto trapped
  fi
}

/* = SplitLane::SlotAt (xla_patch/nvshmem/gpu/kernels/split.cuh) */
inline CopyIn() {
  for (part : block .. LAST_PART) {
    flying[ON_WAY(NEXT(me), part)] == 0;
    flying[ON_WAY(NEXT(me), part)] = permute + 1;
    flies_to[ON_WAY(NEXT(me), part)] = AT(NEXT(me), part)
  }
}

/* = SplitLane::Post (xla_patch/nvshmem/gpu/kernels/split.cuh) */
/* = StoreRelease (xla_patch/nvshmem/gpu/kernels/platform.cuh) */
inline Post() {
  flying[ON_WAY(NEXT(me), block)] == 0 && flying[ON_WAY(NEXT(me), LAST_PART)] == 0;
  arrived[AT(NEXT(me), block)] = number
}

/* = SplitLane::SlotAt (xla_patch/nvshmem/gpu/kernels/split.cuh) */
inline CopyOut() {
  for (part : block .. LAST_PART) {
    assert(slot[AT(me, part)] == permute + 1); /* the message, and not lost or taken before */
    slot[AT(me, part)] = 0
  }
}

/* = SplitLane::Release (xla_patch/nvshmem/gpu/kernels/split.cuh) */
inline Release() {
  consumed[AT(LAST(me), block)] = number
}

/* = Transfers::Finish (xla_patch/thunks/gpu/transfers.cc) */
inline Join() {
  if
  :: carried[me] > permute || !(LANES_SEND(me) || LANES_RECEIVE(me)) -> skip
  :: order[me] -> goto trapped
  fi
}

/* environment: a block has ended; the next kernel begins when all have */
inline EndKernel() {
  assert(program[step] < PERMUTES || !LANES_RECEIVE(me) || carried[me] > permute); /* the results are there */
  ended[me]++;
  step++
}

/* environment: a stream of a process has ended */
inline EndStream() {
  running--
}

#define MAY_BEGIN (step < 2 * PERMUTES && ended[me] >= BLOCKS * step)

/* = SendMessage (xla_patch/nvshmem/gpu/kernels/split.cuh) */
/* = ReceiveMessage (xla_patch/nvshmem/gpu/kernels/split.cuh) */
proctype Block(byte me, block) {
  byte step, permute, number, part;
  do
  :: step == 2 * PERMUTES -> break
  :: step < 2 * PERMUTES && order[me] -> goto trapped
  :: atomic {
       MAY_BEGIN && program[step] < PERMUTES ->
          permute = program[step];
          number = (block < NUM_BLOCKS -> numbers[MESSAGE(TO(me))] : 0);
          if
          :: number != 0 ->
             AwaitConsumed();
             CopyIn();
             Post()
          :: else -> skip
          fi;
          EndKernel()
     }
  :: atomic {
       MAY_BEGIN && program[step] >= PERMUTES ->
          permute = program[step] - PERMUTES;
          number = (block < NUM_BLOCKS -> numbers[MESSAGE(FROM(me))] : 0);
          Join();
          if
          :: number != 0 ->
             AwaitArrived();
             CopyOut()
          :: else -> skip
          fi
     };
     atomic {
       if
       :: number != 0 -> Release()
       :: else -> skip
       fi;
       EndKernel()
     }
  od;
trapped:
  EndStream()
}

/* = Transfers::StartKernel (xla_patch/thunks/gpu/transfers.cc) */
inline AwaitStart() {
  if
  :: ended[me] >= BLOCKS * (begins[permute] + 1) -> at_lane[me] = permute + 1
  :: order[me] -> goto trapped
  fi
}

/* environment: lanes, which have a model of their own; they end when the other PEs have come to the message too */
inline Carry() {
  if
  :: (at_lane[NEXT(me)] > permute || !LANES_SEND(me)) && (at_lane[LAST(me)] > permute || !LANES_RECEIVE(me)) ->
     assert(!LANES_RECEIVE(me) || LANES_SEND(LAST(me)));
     carried[me] = permute + 1
  :: order[me] -> goto trapped
  fi
}

/* = Transfers::StartSplit (xla_patch/thunks/gpu/transfers.cc) */
proctype Lanes(byte me) {
  byte permute;
  atomic {
    for (permute : 0 .. PERMUTES - 1) {
      if
      :: LANES_SEND(me) || LANES_RECEIVE(me) ->
         AwaitStart();
         Carry()
      :: else -> skip
      fi
    }
  }
trapped:
  EndStream()
}

/* environment: a store of a kernel becomes visible */
inline Deliver() {
  assert(slot[flies_to[ON_WAY(to, part)]] == 0); /* nothing is overwritten */
  slot[flies_to[ON_WAY(to, part)]] = flying[ON_WAY(to, part)];
  flying[ON_WAY(to, part)] = 0
}

/* environment: the link to a PE */
proctype Link(byte to, part) {
  do
  :: atomic { flying[ON_WAY(to, part)] != 0 -> Deliver() }
  :: running == 0 && flying[ON_WAY(to, part)] == 0 -> break
  od
}

/* = Watchdog::Report (xla_patch/nvshmem/gpu/watchdog.cc) */
inline Order(pe) {
  order[pe] = true
}

/* = Watchdog::CheckKernels (xla_patch/nvshmem/gpu/watchdog.cc) */
proctype Watchdog(byte pe) {
  if
  :: MAY_FAIL -> Order(pe)
  :: running == 0
  fi
}

/* environment: all hosts enqueue a program, before the GPUs begin */
init {
  byte step, started, left, permute, i, block;
  bool open[PERMUTES];
  atomic {
    for (step : 0 .. 2 * PERMUTES - 1) {
      left = 2 * started - step; /* permutes that are open */
      if
      :: started < PERMUTES ->
         permute = started;
         started++;
         open[permute] = true;
         begins[permute] = step;
         program[step] = permute;
         for (i : 0 .. PES - 1) { Start(i) }
      :: left > 0 ->
         permute = started - 1;
         do
         :: open[permute] && (ORDER != FIFO || left == 1) -> break
         :: open[permute] && ORDER != LIFO && left > 1 -> left--; permute--
         :: !open[permute] -> permute--
         od;
         open[permute] = false;
         program[step] = permute + PERMUTES;
         for (i : 0 .. 2 * PES - 1) { Finish(i) }
      fi
    };
    for (i : 0 .. PES - 1) {
      run Lanes(i);
      run Watchdog(i);
      for (block : 0 .. BLOCKS - 1) {
        run Block(i, block);
        run Link(i, block)
      }
    }
  }
  _nr_pr == 1;
  for (i : 0 .. PES * SLOTS * BLOCKS - 1) {
    assert(slot[i] == 0 || MAY_FAIL)
  }
}
