/* One process waits for messages of another. It looks every 100 ms, and decides: go on, tell the user, or fail the job.
 *
 * The other process comes late, moves slowly, is stopped for a while or for good, exits, comes to the end of its
 * program, or runs another program, at any point. It may call the operation by an id of its own (COPIES). The waiting
 * process itself may be away once, between a poll and a look.
 *
 * Times are numbers of looks.
 */
#ifndef COPIES
#define COPIES 0
#endif
#ifndef DEADLINE
#define DEADLINE 0 /* 0: none */
#endif
#define CHUNKS 2
#define FIRST_SEARCH 1
#define LATE_AFTER 2
#define MOST_AWAY 2 /* of the time while the process was away that counts */
#define LONG 9      /* times stop here */
#define FOUND_WITHIN 3

/* Of the other process. */
byte sent;
bool has_begun; /* the operation is in its records */
bool elsewhere; /* so is one of another program */
bool is_stopped;
bool gone; /* it has exited, or is at the end of its program */
bool is_lost; /* it will never send all */

/* Of the waiting process. */
bool knows_id = !COPIES;
bool is_away;
bool sees_it_run = true; /* at the last look */

/* What must hold. */
bool has_missed; /* something came while the process was away, and it has not polled since */
bool has_come;   /* something was taken since the last look */
byte silence;    /* since then */
byte lost_for;   /* looks since the other process was lost */
byte told;       /* the silence that the last line told, 0: none */

/* environment: a process comes to its operation */
inline Begin() {
  has_begun = true
}

/* = MessageSender::Advance (xla_patch/thunks/cpu/message_sender.cc) */
inline Send() {
  atomic {
    sent++;
    has_missed = has_missed || is_away
  }
}

/* environment: a process exits, or marks its end, once it has sent all, or earlier */
inline Leave() {
  atomic {
    is_lost = sent < CHUNKS;
    gone = true
  }
}

/* environment: a process runs another program, and waits there */
inline GoElsewhere() {
  atomic {
    elsewhere = true;
    is_lost = true
  }
}

/* environment: a process is stopped; a look sees it running between two stops */
inline Stop() {
  atomic {
    is_stopped = true;
    sees_it_run = false
  }
}

/* environment: and goes on */
inline Continue() {
  is_stopped = false
}

/* environment: or stays stopped */
inline StayStopped() {
  is_lost = true
}

/* environment: the waiting process does not run for a while */
inline GoAway() {
  is_away = true
}

/* = ProgressEngine::PollOnce (xla_patch/shm/progress_engine.cc) */
/* = PeerOperations::Translate (xla_patch/thunks/cpu/peer_operations.cc) */
inline Poll() {
  atomic {
    has_missed = false;
    if
    :: knows_id && sent > consumed ->
       consumed = sent;
       made_progress = true;
       has_come = true;
       told = 0
    :: else -> skip
    fi
  }
}

/* = WaitWatch::Count (xla_patch/shm/wait_watch.cc) */
inline Count() {
  atomic {
    was_away = is_away;
    is_away = false;
    passed = (was_away -> MOST_AWAY : 1);
    silence = (has_come -> 0 : (silence + passed > LONG -> LONG : silence + passed));
    has_come = false;
    lost_for = lost_for + is_lost;
    if
    :: made_progress -> time = 0
    :: else -> time = (time + passed > LONG -> LONG : time + passed)
    fi;
    made_progress = false
  }
}

/* = Observer::FindMismatch (xla_patch/runtime/observe/observer.cc) */
inline Search() {
  atomic {
    knows_id = knows_id || has_begun;
    if
    :: elsewhere -> fault = true
    :: else -> skip
    fi
  }
}

/* = CollectiveOperation::WaitsFor (xla_patch/thunks/cpu/collective_operation.cc) */
#define WAITS (consumed < CHUNKS && !(knows_id && sent == CHUNKS))

/* = WaitWatch::FindGone (xla_patch/shm/wait_watch.cc) */
inline FindGone() {
  if
  :: gone && WAITS ->
     if
     :: !has_searched -> has_searched = true; Search(); fault = false
     :: else -> assert(is_lost); gives_up = true
     fi
  :: else -> skip
  fi
}

/* = WaitWatch::CheckOwn (xla_patch/shm/wait_watch.cc) */
inline CheckDeadline() {
  is_past = DEADLINE > 0 && time > DEADLINE;
  polls_once_more = is_past && was_away && !polls_once_more;
  if
  :: is_past && !polls_once_more && !gives_up ->
     assert(DEADLINE > 0 && silence > DEADLINE && !has_missed); /* it has not come in time */
     gives_up = true
  :: else -> skip
  fi
}

/* = WaitWatch::FindStopped (xla_patch/shm/wait_watch.cc) */
inline FindStopped() {
  atomic {
    if
    :: is_stopped && !saw_stopped -> saw_stopped = true; stopped_for = 0
    :: is_stopped && saw_stopped -> stopped_for = stopped_for + passed
    :: else -> saw_stopped = false; stopped_for = 0
    fi;
    sees_it_run = !is_stopped;
    stopped_looks = (is_stopped -> stopped_looks + passed : 0);
    if
    :: saw_stopped && stopped_for >= LATE_AFTER && !gives_up ->
       assert(stopped_looks > LATE_AFTER); /* one stop, and a long one */
       gives_up = true
    :: else -> skip
    fi
  }
}

/* = WaitWatch::CheckOwn (xla_patch/shm/wait_watch.cc) */
inline SearchIfDue() {
  if
  :: time >= FIRST_SEARCH && !gives_up ->
     Search();
     if
     :: fault -> assert(elsewhere); gives_up = true
     :: else -> skip
     fi
  :: else -> skip
  fi
}

/* = WaitWatch::TellIfLate (xla_patch/shm/wait_watch.cc) */
/* = WaitWatch::Tell (xla_patch/shm/wait_watch.cc) */
inline TellIfLate() {
  if
  :: time < LATE_AFTER -> tell_at = LATE_AFTER
  :: time >= LATE_AFTER && time >= tell_at ->
     assert(time >= 2 * told); /* at growing distance */
     told = time;
     tell_at = 2 * time
  :: else -> skip
  fi;
  assert(silence < LATE_AFTER || told > 0) /* each long wait is told */
}

/* = ProgressEngine::PollUntilFinished (xla_patch/shm/progress_engine.cc) */
proctype Waiting() {
  byte consumed, time, passed, stopped_for, stopped_looks, tell_at = LATE_AFTER;
  bool made_progress, was_away, has_been_away, has_searched, is_past, polls_once_more, saw_stopped, fault, gives_up;
  do
  :: consumed == CHUNKS || gives_up -> break
  :: else ->
     Poll();
     if
     :: consumed == CHUNKS -> break
     :: !has_been_away -> has_been_away = true; GoAway()
     :: skip
     fi;
     Count();
     FindGone();
     CheckDeadline();
     FindStopped();
     SearchIfDue();
     assert(gives_up || lost_for < FOUND_WITHIN);
     if
     :: gives_up -> skip
     :: else -> TellIfLate()
     fi
  od
}

/* = ProgressEngine::PollUntilFinished (xla_patch/shm/progress_engine.cc) */
proctype Other() {
  byte stops;
  do
  :: !has_begun -> Begin()
  :: has_begun && sent < CHUNKS -> Send()
  :: !has_begun -> GoElsewhere(); break
  :: Leave(); break
  :: stops < 2 && sees_it_run ->
     stops++;
     Stop();
     if
     :: Continue()
     :: StayStopped(); break
     fi
  od
}

/* environment: two processes */
init {
  atomic {
    run Waiting();
    run Other()
  }
}
