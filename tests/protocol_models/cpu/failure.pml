/* The failure of a job of three processes: deadlines, deaths at any point, and failures that others follow.
 *
 * Process p reads its message out of the memory of p - 1, and its own is read by p + 1. A message has POSITIONS
 * positions. Process VICTIM may be killed, and the deadlines of the first DEADLINES processes may pass, at any time.
 * The others end without a deadline.
 */
#ifndef VICTIM
#define VICTIM 0
#endif
#ifndef DEADLINES
#define DEADLINES 3
#endif
#define PROCESSES 3
#ifndef POSITIONS
#define POSITIONS 2
#endif
#define BEFORE(process) ((process + 2) % PROCESSES)
#define AFTER(process) ((process + 1) % PROCESSES)

/* SegmentHeader::failed. */
#define NOT_FAILED 0
#define FAILED 1
#define FAILING 2
#define FOLLOWING 3
byte header[PROCESSES];

bool posted[PROCESSES]; /* mail of process p for the next one */
byte taken[PROCESSES];  /* of that message */
bool let_go[PROCESSES]; /* the operand of process p is used for other things */
bool dead[PROCESSES];
bool ended[PROCESSES];

/* = CrossMemoryReader::Read (xla_patch/shm/cross_memory_reader.cc) */
inline Read() {
  gone = dead[BEFORE(me)];
  garbage = let_go[BEFORE(me)]
}

/* = CrossMemoryReader::Read (xla_patch/shm/cross_memory_reader.cc) */
inline AskWhetherItHasFailed() {
  gone = gone || header[BEFORE(me)] != NOT_FAILED
}

/* = MessageReceiver::Receive (xla_patch/thunks/cpu/message_receiver.cc) */
inline Take() {
  assert(!garbage); /* nothing that was let go is taken for the message */
  consumed++;
  taken[BEFORE(me)] = consumed
}

/* = MessageSender::OfferCrossMemoryRead (xla_patch/thunks/cpu/message_sender.cc) */
inline Post() {
  posted[me] = true
}

/* = CollectiveOperation::Poll (xla_patch/thunks/cpu/collective_operation.cc) */
inline Receive() {
  Read();
  AskWhetherItHasFailed();
  if
  :: !gone -> Take()
  :: else -> skip
  fi;
  garbage = false
}

/* = Heap::JobStatus (xla_patch/shm/heap.cc) */
#define JOB_HAS_FAILED (header[0] == FAILED || header[1] == FAILED || header[2] == FAILED)

/* = CollectiveOperation::WaitsFor (xla_patch/thunks/cpu/collective_operation.cc) */
/* = MessageReceiver::WaitsForSender (xla_patch/thunks/cpu/message_receiver.cc) */
/* = MessageSender::WaitsForReceiver (xla_patch/thunks/cpu/message_sender.cc) */
#define WAITS_FOR_DEAD ((dead[BEFORE(me)] && consumed < POSITIONS) || (dead[AFTER(me)] && taken[me] < POSITIONS))

/* = Heap::Fail (xla_patch/shm/heap.cc) */
inline Fail() {
  atomic {
    if
    :: header[me] == NOT_FAILED -> header[me] = FAILING
    :: else -> skip
    fi
  };
  header[me] = FAILED
}

/* = Heap::FollowFailure (xla_patch/shm/heap.cc) */
inline Follow() {
  atomic {
    if
    :: header[me] == NOT_FAILED -> header[me] = FOLLOWING
    :: else -> skip
    fi
  }
}

/* = ProgressEngine::FailAll (xla_patch/shm/progress_engine.cc) */
/* = CollectiveOperation::Abandon (xla_patch/thunks/cpu/collective_operation.cc) */
inline FailAll() {
  Follow();
  let_go[me] = true
}

/* = ProgressEngine::FindFailure (xla_patch/shm/progress_engine.cc) */
/* = ProgressEngine::CheckForFailure (xla_patch/shm/progress_engine.cc) */
inline GiveUp() {
  if
  :: JOB_HAS_FAILED -> skip
  :: else -> Fail()
  fi;
  FailAll()
}

/* = ProgressEngine::PollOnce (xla_patch/shm/progress_engine.cc) */
inline Complete() {
  let_go[me] = true
}

/* environment: a process ends */
inline End() {
  atomic {
    ended[me] = true;
    consumed = 0;
    gone = false
  }
}

/* = ProgressEngine::PollUntilFinished (xla_patch/shm/progress_engine.cc) */
proctype Process(byte me) {
  byte consumed;
  bool gone, garbage;
  {
    do
    :: !posted[me] -> Post()
    :: posted[BEFORE(me)] && consumed < POSITIONS && !gone -> Receive()
    :: consumed == POSITIONS && taken[me] == POSITIONS ->
       Complete();
       break
    :: JOB_HAS_FAILED ->
       FailAll();
       break
    :: WAITS_FOR_DEAD ->
       GiveUp();
       break
    :: me < DEADLINES -> /* it has passed */
       GiveUp();
       break
    od;
    End()
  } unless { dead[me] }
}

/* environment: a process is killed, or exits though others wait for it */
inline Kill(process) {
  dead[process] = true
}

/* environment: one process is killed at any point, or none */
proctype Killer() {
  if
  :: Kill(VICTIM)
  :: skip
  fi
}

/* environment: three processes start their operations at once */
init {
  byte i;
  atomic {
    for (i : 0 .. PROCESSES - 1) {
      run Process(i)
    }
    run Killer()
  }
  _nr_pr == 1;
  for (i : 0 .. PROCESSES - 1) {
    assert(ended[i] || dead[i])
  }
}
