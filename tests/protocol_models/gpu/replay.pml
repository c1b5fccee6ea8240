/* Permutes in CUDA graphs: the words and slots of a replay, between two PEs, each with one stream.
 *
 * A graph is launched LAUNCHES times, and behind each launch comes a permute of LATER_CHUNKS chunks. A chunk is two
 * puts. What a stream writes becomes visible later, in any order, unless a command waits for the earlier ones of its
 * stream: Ordered. A wait does not wait for them.
 */
#ifndef COPIES
#define COPIES 0 /* 1: a signal is a write of a word of the PE's own, and a copy of it */
#endif
#ifndef ONE_WAY
#define ONE_WAY 0 /* 1: only PE 0 sends */
#endif
#ifndef CHUNKS
#define CHUNKS 5
#endif
#ifndef LATER_CHUNKS
#define LATER_CHUNKS 2
#endif
#ifndef LAUNCHES
#define LAUNCHES 2
#endif
#define SLOTS 3
#define LEAD 1
#define OPERATIONS (2 * LAUNCHES)
#define PIECES 2
#define OTHER(pe) (1 - (pe))
#define SENDS(pe) (!ONE_WAY || (pe) == 0)
#define RECEIVES(pe) (!ONE_WAY || (pe) == 1)
#define COUNT(operation) ((operation) % 2 == 0 -> CHUNKS : LATER_CHUNKS)
#define VALUE(operation, chunk) ((operation) * 16 + (chunk) + 1)

bit grant[6]; /* by PE, which is the source, and slot */
bit arrived[6];
bit own_grant[6]; /* the unused instances of a PE, sources of copied signals */
bit own_arrived[6];
byte slot[12]; /* by PE, slot and piece; 0: consumed */
#define SLOT(pe, number, piece) slot[((pe) * SLOTS + (number)) * PIECES + (piece)]

/* What a stream has on its way; 0: nothing, else the number of a slot + 1. */
typedef Flight {
  byte put[PIECES];
  byte put_value;
  byte grant;
  byte arrived;
  byte clear_grant;
  byte clear_arrived;
  byte copy;
  byte copy_value
}
Flight flight[2];
byte streams = 2; /* that have not ended */

#define NOTHING_FLIES(pe) \
  (flight[pe].put[0] == 0 && flight[pe].put[1] == 0 && flight[pe].grant == 0 && flight[pe].arrived == 0 && \
   flight[pe].clear_grant == 0 && flight[pe].clear_arrived == 0 && flight[pe].copy == 0)

/* = BatchedStream::Flush (xla_patch/nvshmem/gpu/batched_stream.cc) */
/* = Device::Write (xla_patch/nvshmem/gpu/device.cc) */
inline Ordered() {
  NOTHING_FLIES(pe)
}

/* = BatchedStream::Signal (xla_patch/nvshmem/gpu/batched_stream.cc) */
inline Grant(number) {
  if
  :: COPIES -> atomic { Ordered(); own_grant[pe * SLOTS + number] = 1 }
  :: else -> skip
  fi;
  atomic { Ordered(); flight[pe].grant = number + 1 }
}

/* = BatchedStream::Put (xla_patch/nvshmem/gpu/batched_stream.cc) */
inline Put(piece, number) {
  atomic {
    flight[pe].put[piece] == 0;
    flight[pe].put[piece] = number + 1;
    flight[pe].put_value = VALUE(operation, next)
  }
}

/* = BatchedStream::PutSignal (xla_patch/nvshmem/gpu/batched_stream.cc) */
/* = EnqueuePieces (xla_patch/thunks/gpu/pair_rings.cc) */
inline PutChunk(number) {
  Put(0, number);
  if
  :: COPIES -> atomic { Ordered(); own_arrived[pe * SLOTS + number] = 1 }
  :: else -> skip
  fi;
  Put(1, number);
  atomic { Ordered(); flight[pe].arrived = number + 1 }
}

/* = BatchedStream::WaitEqual (xla_patch/nvshmem/gpu/batched_stream.h) */
/* = Exchange::Await (xla_patch/thunks/gpu/replay.cc) */
inline AwaitGrant(number) {
  grant[pe * SLOTS + number] == 1;
  atomic { Ordered(); flight[pe].clear_grant = number + 1 }
}

/* = BatchedStream::WaitEqual (xla_patch/nvshmem/gpu/batched_stream.h) */
/* = Exchange::Await (xla_patch/thunks/gpu/replay.cc) */
inline AwaitArrived(number) {
  arrived[pe * SLOTS + number] == 1;
  atomic { Ordered(); flight[pe].clear_arrived = number + 1 }
}

/* = EnqueueResults (xla_patch/thunks/gpu/collective_permute.cc) */
/* = BatchedStream::Copy (xla_patch/nvshmem/gpu/batched_stream.cc) */
inline CopyOut(number) {
  atomic {
    flight[pe].copy == 0;
    flight[pe].copy = number + 1;
    flight[pe].copy_value = VALUE(operation, next - LEAD)
  }
}

/* = Exchange::Grant (xla_patch/thunks/gpu/replay.cc) */
inline FirstGrants() {
  next = 0;
  do
  :: next < SLOTS && next < COUNT(operation) && RECEIVES(pe) ->
     Grant(next);
     next++
  :: else -> break
  od;
  next = 0
}

/* = Exchange::Put (xla_patch/thunks/gpu/replay.cc) */
inline Send() {
  AwaitGrant(next % SLOTS);
  PutChunk(next % SLOTS)
}

/* = Exchange::Receive (xla_patch/thunks/gpu/replay.cc) */
inline Receive() {
  AwaitArrived((next - LEAD) % SLOTS);
  CopyOut((next - LEAD) % SLOTS);
  if
  :: next - LEAD + SLOTS < COUNT(operation) -> Grant((next - LEAD) % SLOTS)
  :: else -> skip
  fi
}

/* environment: a stream has run all of its commands */
inline EndStream() {
  streams--
}

/* = EnqueuePermuteReplay (xla_patch/thunks/gpu/replay.cc) */
/* = Transfers::ReplayPermute (xla_patch/thunks/gpu/transfers.cc) */
proctype Stream(byte pe) {
  byte operation, next;
  do
  :: operation < OPERATIONS ->
     FirstGrants();
     do
     :: next < COUNT(operation) + LEAD ->
        if
        :: next < COUNT(operation) && SENDS(pe) -> Send()
        :: else -> skip
        fi;
        if
        :: next >= LEAD && RECEIVES(pe) -> Receive()
        :: else -> skip
        fi;
        next++
     :: else -> break
     od;
     operation++
  :: else -> break
  od;
  EndStream()
}

/* environment: a put becomes visible */
inline DeliverPut(piece) {
  assert(SLOT(OTHER(pe), flight[pe].put[piece] - 1, piece) == 0); /* nothing is overwritten */
  SLOT(OTHER(pe), flight[pe].put[piece] - 1, piece) = flight[pe].put_value;
  flight[pe].put[piece] = 0
}

/* environment: a signal becomes visible */
inline DeliverGrant() {
  grant[OTHER(pe) * SLOTS + flight[pe].grant - 1] = (COPIES -> own_grant[pe * SLOTS + flight[pe].grant - 1] : 1);
  flight[pe].grant = 0
}

/* environment: a signal becomes visible */
inline DeliverArrived() {
  arrived[OTHER(pe) * SLOTS + flight[pe].arrived - 1] =
      (COPIES -> own_arrived[pe * SLOTS + flight[pe].arrived - 1] : 1);
  flight[pe].arrived = 0
}

/* environment: a write of a PE's own word becomes visible */
inline ClearGrant() {
  grant[pe * SLOTS + flight[pe].clear_grant - 1] = 0;
  flight[pe].clear_grant = 0
}

/* environment: a write of a PE's own word becomes visible */
inline ClearArrived() {
  arrived[pe * SLOTS + flight[pe].clear_arrived - 1] = 0;
  flight[pe].clear_arrived = 0
}

/* environment: a copy within the GPU ends */
inline EndCopy() {
  assert(SLOT(pe, flight[pe].copy - 1, 0) == flight[pe].copy_value); /* the chunk, and not lost or taken before */
  assert(SLOT(pe, flight[pe].copy - 1, 1) == flight[pe].copy_value);
  SLOT(pe, flight[pe].copy - 1, 0) = 0;
  SLOT(pe, flight[pe].copy - 1, 1) = 0;
  flight[pe].copy = 0
}

/* environment: the link and the copy engines behind a stream */
proctype Hardware(byte pe) {
  do
  :: atomic { flight[pe].put[0] != 0 -> DeliverPut(0) }
  :: atomic { flight[pe].put[1] != 0 -> DeliverPut(1) }
  :: atomic { flight[pe].grant != 0 -> DeliverGrant() }
  :: atomic { flight[pe].arrived != 0 -> DeliverArrived() }
  :: atomic { flight[pe].clear_grant != 0 -> ClearGrant() }
  :: atomic { flight[pe].clear_arrived != 0 -> ClearArrived() }
  :: atomic { flight[pe].copy != 0 -> EndCopy() }
  :: streams == 0 && NOTHING_FLIES(pe) -> break
  od
}

/* environment: both PEs launch the same graphs, which come to their ends */
init {
  byte i;
  atomic {
    run Stream(0);
    run Stream(1);
    run Hardware(0);
    run Hardware(1)
  }
  _nr_pr == 1;
  for (i : 0 .. 5) {
    assert(grant[i] == 0 && arrived[i] == 0) /* as at the start */
  }
  for (i : 0 .. 11) {
    assert(slot[i] == 0)
  }
}
