/* Small messages in packets between the lanes of two PEs, and a watchdog that ends them.
 *
 * Each PE runs OPERATIONS operations; FORM says what each is, LARGE which messages have two packets behind the head.
 * Numbers wrap round at WRAP, and slots are renewed every WRAP / 2. A packet is one store, which arrives whole, at any
 * time and in any order among packets of other places. With MAY_FAIL PE VICTIM may die at any point.
 */
#ifndef FIRST
#define FIRST 0
#endif
#define FORM(operation) ((FIRST + (operation)) % 3)
#define BOTH 0  /* both send */
#define UP 1    /* PE 0 sends */
#define DOWN 2  /* PE 1 sends */
#ifndef OPERATIONS
#define OPERATIONS 13
#endif
#ifndef ALL_BOTH
#define ALL_BOTH 0 /* every operation is BOTH */
#endif
#ifndef MAY_FAIL
#define MAY_FAIL 0
#endif
#define VICTIM 1
#define PES 2
#define SLOTS 2
#define WRAP 8
#define PACKETS 3 /* of a slot: the head and two more */
#define LARGE(message) ((message) % WRAP == 1)
#define AT(pe, message, packet) (((pe) * SLOTS + (message) % SLOTS) * PACKETS + (packet))
#define NUMBER(message) ((message) % WRAP)
#define PEER (1 - me)

typedef Packet {
  byte number;
  byte bytes /* stand for those of an operation, counted from 1 */
};
Packet slot[12];   /* by receiver, message mod SLOTS and packet */
Packet flying[12]; /* likewise, on the way */
bool is_flying[12];
byte sent[2];      /* by PE */
bool heard[2];     /* the peer's message of that number has come */
bool dead[2];
bool order[2]; /* the watchdog tells the kernels of the PE to end */
byte running = PES;

#define SENDS (ALL_BOTH || FORM(operation) == BOTH || FORM(operation) == (me == 0 -> UP : DOWN))
#define RECEIVES (ALL_BOTH || FORM(operation) == BOTH || FORM(operation) == (me == 0 -> DOWN : UP))

/* = StorePairRelaxed (xla_patch/nvshmem/gpu/kernels/platform.cuh) */
inline Store(place, of_number, of_bytes) {
  atomic {
    !is_flying[place]; /* stores to one place keep their order */
    is_flying[place] = true;
    flying[place].number = of_number;
    flying[place].bytes = of_bytes
  }
}

/* = LaneBase::Begin (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline Begin() {
  atomic {
    message = sent[me];
    awaits = !heard[me]
  }
}

/* = LaneBase::End (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline End() {
  atomic {
    sent[me] = message;
    heard[me] = !awaits;
    operation++
  }
}

/* = PacketLane::AwaitHead (xla_patch/nvshmem/gpu/kernels/packets.cuh) */
/* = LaneBase::AwaitWord (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
/* = LaneBase::Heed (xla_patch/nvshmem/gpu/kernels/exchange.cuh) */
inline AwaitHead() {
  if
  :: slot[AT(me, message, 0)].number == NUMBER(message) -> skip
  :: order[me] -> goto trapped
  fi
}

/* = PacketLane::Renew (xla_patch/nvshmem/gpu/kernels/packets.cuh) */
inline Renew() {
  for (packet : 0 .. PACKETS - 1) {
    Store(AT(PEER, message, packet), NUMBER(message + WRAP - 2), 0)
  }
}

/* = PacketLane::BeginMessages (xla_patch/nvshmem/gpu/kernels/packets.cuh) */
inline BeginMessages() {
  if
  :: awaits -> AwaitHead()
  :: else -> skip
  fi;
  message++;
  if
  :: message % (WRAP / 2) < 2 -> Renew()
  :: else -> skip
  fi;
  Store(AT(PEER, message, 0), NUMBER(message), operation + 1)
}

/* = PacketLane::Send (xla_patch/nvshmem/gpu/kernels/packets.cuh) */
inline Send() {
  Store(AT(PEER, message, 1), NUMBER(message), operation + 1);
  if
  :: LARGE(message) -> Store(AT(PEER, message, 2), NUMBER(message), operation + 1)
  :: else -> skip
  fi
}

/* = PacketLane::Settle (xla_patch/nvshmem/gpu/kernels/packets.cuh) */
inline Settle(packet) {
  atomic {
    if
    :: slot[AT(me, message, packet)].number == NUMBER(message) ->
       assert(slot[AT(me, message, packet)].bytes == operation + 1)
    :: order[me] -> goto trapped
    fi
  }
}

/* = PacketLane::Take (xla_patch/nvshmem/gpu/kernels/packets.cuh) */
inline Take() {
  Settle(1);
  if
  :: LARGE(message) -> Settle(2)
  :: else -> skip
  fi
}

/* = PacketLane::EndMessages (xla_patch/nvshmem/gpu/kernels/packets.cuh) */
inline EndMessages() {
  awaits = true;
  if
  :: RECEIVES -> AwaitHead(); awaits = false
  :: else -> skip
  fi
}

/* environment: a process has ended, with its GPU's streams */
inline EndProcess() {
  running--
}

/* = RunPacketLane (xla_patch/nvshmem/gpu/kernels/kernels.cu) */
proctype Kernels(byte me) {
  byte operation, message, packet;
  bool awaits;
  do
  :: operation == OPERATIONS -> break
  :: operation < OPERATIONS && dead[me] -> goto trapped
  :: operation < OPERATIONS && !dead[me] ->
     Begin();
     BeginMessages();
     if
     :: SENDS -> Send()
     :: else -> skip
     fi;
     if
     :: RECEIVES -> Take()
     :: else -> skip
     fi;
     EndMessages();
     End()
  od;
trapped:
  EndProcess()
}

/* environment: a store of a kernel arrives */
inline Deliver() {
  slot[place].number = flying[place].number;
  slot[place].bytes = flying[place].bytes;
  is_flying[place] = false
}

/* environment: the link, which delivers what goes to one place */
proctype Link(byte place) {
  do
  :: atomic { is_flying[place] -> Deliver() }
  :: running == 0 && !is_flying[place] -> break
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

/* environment: both PEs enqueue the same operations, and end */
init {
  byte i;
  atomic {
    /* Numbers begin at 1: no message has come. */
    for (i : 0 .. PES - 1) {
      heard[i] = true;
      run Kernels(i);
      run Watchdog(i)
    }
    for (i : 0 .. 11) {
      run Link(i)
    }
  }
  _nr_pr == 1
}
