/* Permutes over the rings of two PEs: puts, signals, and credit for half a ring, by streams.
 *
 * Each PE sends MESSAGES messages to the other one, CHUNKS in an operation. A message is two puts. What a stream writes
 * to the other PE becomes visible later, in any order, unless a command waits for the earlier ones of its stream:
 * Ordered. A wait does not wait for them.
 *
 * QUEUES 3: two streams for sends, which take turns, and one for receives. PE 0 sends, because the other direction has
 * streams, words and slots of its own. Streams may share a hardware queue, which starts their commands in the order in
 * which they were enqueued. 2: those for sends share one. 1: all three do. 0: in place, one stream.
 * A command that is left in a batch of the stream is enqueued with the next flush, which matters if streams share a
 * queue: a credit waits for the next wait of its stream.
 * COPIES 1: a signal is a write of a word of the PE's own, and a copy of it.
 */
#ifndef QUEUES
#define QUEUES 3
#endif
#ifndef COPIES
#define COPIES 0
#endif
#ifndef MESSAGES
#define MESSAGES 7
#endif
#ifndef CHUNKS
#define CHUNKS 3
#endif
#define SLOTS 4
#define HALF (SLOTS / 2)
#define PIECES 2

#define SEND_STREAMS 2

/* Streams: 3 * PE and the next for sends, then one for receives. */
#define SENDS(pe, message) (QUEUES == 0 -> RECEIVES(pe) : 3 * (pe) + (message) % SEND_STREAMS)
#define RECEIVES(pe) (3 * (pe) + 2)
#define PE(stream) ((stream) / 3)
#define OTHER(pe) (1 - (pe))

byte arrived[8]; /* by PE and message mod SLOTS: the message + 1 */
byte credit[2];
byte own_arrived[8]; /* the unused instances of a PE, sources of copied signals */
byte own_credit[2];
#define WORD(words, pe, message) words[(pe) * SLOTS + (message) % SLOTS]
byte slot[16]; /* by PE, message mod SLOTS and piece: the message + 1, 0: consumed */
#define SLOT(pe, message, piece) slot[((pe) * SLOTS + (message) % SLOTS) * PIECES + (piece)]
byte owed[2];        /* by PE: a credit in a batch, 0: none */
byte overwritten[2]; /* in place: chunks of the operand that results have overwritten */

/* What a stream has on its way: two puts, a signal of each kind, and a copy out of a slot. 0: nothing, else the value
 * (of a copied credit: 1). */
typedef Flight {
  byte put[PIECES];
  byte arrived;
  byte credit;
  byte copy
}
Flight flight[6];
byte queues = 9; /* that have not ended */

/* = BatchedStream::Flush (xla_patch/nvshmem/gpu/device.cc) */
inline Ordered(s) {
  flight[s].put[0] == 0 && flight[s].put[1] == 0 && flight[s].arrived == 0 && flight[s].credit == 0 &&
      flight[s].copy == 0
}

/* = BatchedStream::Put (xla_patch/nvshmem/gpu/device.cc) */
/* = Device::Copy (xla_patch/nvshmem/gpu/device.cc) */
inline Put(s, piece) {
  atomic { flight[s].put[piece] == 0 -> flight[s].put[piece] = sent + 1 }
}

/* = BatchedStream::PutSignal (xla_patch/nvshmem/gpu/device.cc) */
/* = EnqueuePieces (xla_patch/thunks/gpu/pair_rings.cc) */
inline PutMessage(s) {
  Put(s, 0);
  if
  :: COPIES ->
     atomic { Ordered(s); WORD(own_arrived, PE(s), sent) = sent + 1 };
     Put(s, 1)
  :: else -> Put(s, 1)
  fi;
  atomic { Ordered(s); flight[s].arrived = sent + 1 }
}

/* = PairRings::EnqueueCreditWait (xla_patch/thunks/gpu/pair_rings.cc) */
inline AwaitCredit(pe) {
  if
  :: (message / HALF + 1) * HALF > SLOTS + awaited[message % SEND_STREAMS] ->
     awaited[message % SEND_STREAMS] = (message / HALF + 1) * HALF - SLOTS;
     credit[pe] >= awaited[message % SEND_STREAMS]
  :: else -> skip
  fi
}

/* = BatchedStream::Flush (xla_patch/nvshmem/gpu/device.cc) */
inline FlushReceives(pe) {
  if
  :: owed[pe] != 0 ->
     atomic { Ordered(RECEIVES(pe)); flight[RECEIVES(pe)].credit = owed[pe]; owed[pe] = 0 }
  :: else -> skip
  fi
}

/* = PairRings::EnqueueMessage (xla_patch/thunks/gpu/pair_rings.cc) */
/* = EnqueuePermute (xla_patch/thunks/gpu/collective_permute.cc) */
inline Send(pe) {
  message = sent;
  AwaitCredit(pe);
  stream = SENDS(pe, sent);
  PutMessage(stream);
  if
  :: sent % CHUNKS + SEND_STREAMS < CHUNKS && sent + SEND_STREAMS < MESSAGES ->
#if QUEUES == 1
     FlushReceives(pe);
#endif
     message = sent + SEND_STREAMS;
     AwaitCredit(pe)
  :: else -> skip
  fi
}

/* = PairRings::EnqueueArrival (xla_patch/thunks/gpu/pair_rings.cc) */
inline AwaitArrival(pe) {
  WORD(arrived, pe, received) == received + 1
}

/* = EnqueueResults (xla_patch/thunks/gpu/collective_permute.cc) */
/* = BatchedStream::Copy (xla_patch/nvshmem/gpu/device.cc) */
inline CopyOut(s) {
  atomic {
    Ordered(s);
    flight[s].copy = received + 1;
    if
    :: QUEUES == 0 -> overwritten[PE(s)] = received + 1
    :: else -> skip
    fi
  }
}

/* = PairRings::EnqueueCredit (xla_patch/thunks/gpu/pair_rings.cc) */
/* = BatchedStream::Signal (xla_patch/nvshmem/gpu/device.cc) */
inline Credit(s) {
  received++;
  if
  :: received % HALF == 0 ->
     if
     :: COPIES ->
        atomic { Ordered(s); own_credit[PE(s)] = received };
        atomic { Ordered(s); flight[s].credit = 1 }
     :: !COPIES && QUEUES == 1 && received % CHUNKS != 0 && received != MESSAGES -> owed[PE(s)] = received
     :: else -> atomic { Ordered(s); flight[s].credit = received }
     fi
  :: else -> skip
  fi
}

/* = EnqueuePermute (xla_patch/thunks/gpu/collective_permute.cc) */
inline Receive(pe) {
#if QUEUES == 1
  FlushReceives(pe);
#endif
  AwaitArrival(pe);
  CopyOut(RECEIVES(pe));
  Credit(RECEIVES(pe))
}

/* environment: a queue has run all of its commands */
inline EndQueue() {
  queues--
}

/* = EnqueuePermute (xla_patch/thunks/gpu/collective_permute.cc) */
proctype SendQueue(byte pe, sent, step) {
  byte stream, message;
  byte awaited[SEND_STREAMS];
  do
  :: sent < MESSAGES ->
     Send(pe);
     sent = sent + step
  :: else ->
     EndQueue();
     break
  od
}

/* = EnqueuePermute (xla_patch/thunks/gpu/collective_permute.cc) */
proctype ReceiveQueue(byte pe) {
  byte received;
  do
  :: received < MESSAGES -> Receive(pe)
  :: else ->
     EndQueue();
     break
  od
}

/* = EnqueuePermute (xla_patch/thunks/gpu/collective_permute.cc) */
proctype OneQueue(byte pe) {
  byte sent, received;
  byte stream, message;
  byte awaited[SEND_STREAMS];
  do
  :: sent < MESSAGES ->
     Send(pe);
     sent++;
     Receive(pe)
  :: else ->
     EndQueue();
     break
  od
}

/* environment: a put becomes visible */
inline DeliverPut(piece) {
  assert(QUEUES != 0 || flight[s].put[piece] > overwritten[PE(s)]); /* the operand is as it was */
  assert(SLOT(OTHER(PE(s)), flight[s].put[piece] - 1, piece) == 0); /* nothing is overwritten */
  SLOT(OTHER(PE(s)), flight[s].put[piece] - 1, piece) = flight[s].put[piece];
  flight[s].put[piece] = 0
}

/* environment: a signal becomes visible */
inline DeliverArrived() {
  WORD(arrived, OTHER(PE(s)), flight[s].arrived - 1) =
      (COPIES -> WORD(own_arrived, PE(s), flight[s].arrived - 1) : flight[s].arrived);
  flight[s].arrived = 0
}

/* environment: a signal becomes visible */
inline DeliverCredit() {
  credit[OTHER(PE(s))] = (COPIES -> own_credit[PE(s)] : flight[s].credit);
  flight[s].credit = 0
}

/* environment: a copy within the GPU ends */
inline EndCopy() {
  assert(SLOT(PE(s), flight[s].copy - 1, 0) == flight[s].copy); /* the message, and not lost or taken before */
  assert(SLOT(PE(s), flight[s].copy - 1, 1) == flight[s].copy);
  SLOT(PE(s), flight[s].copy - 1, 0) = 0;
  SLOT(PE(s), flight[s].copy - 1, 1) = 0;
  flight[s].copy = 0
}

/* environment: the link and the copy engines behind a stream */
proctype Hardware(byte s) {
  do
  :: atomic { flight[s].put[0] != 0 -> DeliverPut(0) }
  :: atomic { flight[s].put[1] != 0 -> DeliverPut(1) }
  :: atomic { flight[s].arrived != 0 -> DeliverArrived() }
  :: atomic { flight[s].credit != 0 -> DeliverCredit() }
  :: atomic { flight[s].copy != 0 -> EndCopy() }
  :: queues == 0 && flight[s].put[0] + flight[s].put[1] + flight[s].arrived + flight[s].credit + flight[s].copy == 0 ->
     break
  od
}

/* environment: both PEs start their operations, and end */
init {
  byte i;
  atomic {
    for (i : 0 .. 5) {
      run Hardware(i)
    }
    if
    :: QUEUES == 3 ->
       queues = 3;
       run SendQueue(0, 0, 2);
       run SendQueue(0, 1, 2);
       run ReceiveQueue(1)
    :: QUEUES == 2 ->
       queues = 4;
       run SendQueue(0, 0, 1);
       run SendQueue(1, 0, 1);
       run ReceiveQueue(0);
       run ReceiveQueue(1)
    :: else ->
       queues = 2;
       run OneQueue(0);
       run OneQueue(1)
    fi
  }
  _nr_pr == 1;
  for (i : 0 .. 15) {
    assert(slot[i] == 0)
  }
}
