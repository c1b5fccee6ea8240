/* The failure of a job of three processes: deadlines, deaths at any point, programs that end early or differ, processes
 * that are stopped, and failures that others follow.
 *
 * Process p reads its message out of the memory of p - 1, and its own is read by p + 1. A message has POSITIONS
 * positions. Process VICTIM may be killed at any time, or does what its FATE is, or is only late. The deadlines of the
 * first DEADLINES processes may pass at any time. The others end without a deadline.
 */
#define LATE 0
#define AT_END 1  /* its program ends before its operation */
#define ELSEWHERE 2 /* it runs another program, and waits there */
#define STOPPED 3 /* for good, before its operation */
#ifndef FATE
#define FATE LATE
#endif
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
bool at_end[PROCESSES];
bool elsewhere[PROCESSES]; /* its records say that it waits in another program */
bool is_stopped[PROCESSES];
bool ended[PROCESSES];
bool is_broken; /* there is a reason to give up */

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
#define WAITS_FOR_BEFORE (consumed < POSITIONS)
#define WAITS_FOR_AFTER (taken[me] < POSITIONS)
#define WAITS_FOR_GONE \
  (((dead[BEFORE(me)] || at_end[BEFORE(me)]) && WAITS_FOR_BEFORE) || \
   ((dead[AFTER(me)] || at_end[AFTER(me)]) && WAITS_FOR_AFTER))

/* = WaitWatch::FindStopped (xla_patch/shm/wait_watch.cc) */
#define WAITS_FOR_STOPPED ((is_stopped[BEFORE(me)] && WAITS_FOR_BEFORE) || (is_stopped[AFTER(me)] && WAITS_FOR_AFTER))

/* = Observer::FindMismatch (xla_patch/runtime/observe/observer.cc) */
#define WAITS_FOR_ANOTHER_PROGRAM \
  ((elsewhere[BEFORE(me)] && WAITS_FOR_BEFORE) || (elsewhere[AFTER(me)] && WAITS_FOR_AFTER))

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

/* = WaitWatch::Check (xla_patch/shm/wait_watch.cc) */
/* = ProgressEngine::FindFailure (xla_patch/shm/progress_engine.cc) */
/* = ProgressEngine::CheckForFailure (xla_patch/shm/progress_engine.cc) */
inline GiveUp() {
  assert(is_broken); /* a process that is only late fails no job */
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

/* environment: a deadline passes */
inline PassDeadline() {
  is_broken = true
}

/* environment: the program of a process ends early, is another one, or stops */
inline GoAstray() {
  atomic {
    is_broken = true;
    if
    :: FATE == ELSEWHERE -> elsewhere[me] = true
    :: FATE == STOPPED -> is_stopped[me] = true
    :: else -> at_end[me] = true
    fi
  }
}

/* = Runtime::MarkAtEnd (xla_patch/runtime/runtime.cc) */
inline MarkAtEnd() {
  at_end[me] = true
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
    :: FATE != LATE && me == VICTIM ->
       GoAstray();
       if
       :: FATE == ELSEWHERE -> JOB_HAS_FAILED
       :: else -> skip
       fi;
       break
    :: !posted[me] && (FATE == LATE || me != VICTIM) -> Post()
    :: posted[BEFORE(me)] && consumed < POSITIONS && !gone -> Receive()
    :: consumed == POSITIONS && taken[me] == POSITIONS ->
       Complete();
       MarkAtEnd();
       break
    :: JOB_HAS_FAILED ->
       FailAll();
       break
    :: WAITS_FOR_GONE || WAITS_FOR_STOPPED || WAITS_FOR_ANOTHER_PROGRAM ->
       GiveUp();
       break
    :: me < DEADLINES ->
       PassDeadline();
       GiveUp();
       break
    od;
    End()
  } unless { dead[me] }
}

/* environment: a process is killed, or exits though others wait for it */
inline Kill(process) {
  atomic {
    is_broken = true;
    dead[process] = true
  }
}

/* environment: one process is killed at any point, or none */
proctype Killer() {
  if
  :: FATE == LATE -> Kill(VICTIM)
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
