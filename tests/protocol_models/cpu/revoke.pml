/* An operation is given up while another thread of its process reads its operand.
 *
 * Between PEs of one process a direct read is a copy by the receiver's thread. The sender's thread, when the job has
 * failed, takes the mail back and waits for the reader before it lets the operand go. The mailbox may get other mail.
 */
#ifndef READS
#define READS 2
#endif

byte state; /* of the mailbox; 0: free */
byte key;
bool reading;
byte taken;
byte posted; /* numbers of states */
bool failed;
bool let_go[3]; /* the operand of message 1 or 2 */

/* = Mailboxes::Claim (xla_patch/thunks/cpu/mailboxes.cc) */
/* = Mailboxes::Post (xla_patch/thunks/cpu/mailboxes.cc) */
inline Post() {
  key = mine;
  taken = 0;
  atomic { posted++; number = posted };
  state = number
}

/* = Mailboxes::Free (xla_patch/thunks/cpu/mailboxes.h) */
inline Free() {
  state = 0
}

/* = MessageSender::Revoke (xla_patch/thunks/cpu/message_sender.cc) */
inline Revoke() {
  state = 0;
  !reading
}

/* = ProgressEngine::FailAll (xla_patch/shm/progress_engine.cc) */
/* = CollectiveOperation::Abandon (xla_patch/thunks/cpu/collective_operation.cc) */
inline Abandon() {
  Revoke();
  LetGo()
}

/* = ProgressEngine::RunOneCompletion (xla_patch/shm/progress_engine.cc) */
inline LetGo() {
  let_go[mine] = true
}

/* = Mailboxes::Find (xla_patch/thunks/cpu/mailboxes.cc) */
inline Find() {
  found = state;
  if
  :: found != 0 ->
     seen_key = key;
     if
     :: seen_key == mine && state == found -> skip
     :: else -> found = 0
     fi
  :: else -> skip
  fi
}

/* = MessageReceiver::ReadCrossMemory (xla_patch/thunks/cpu/message_receiver.cc) */
inline Read() {
  reading = true;
  if
  :: state != found -> reading = false
  :: else ->
     assert(!let_go[mine]);
     assert(!let_go[mine]); /* a copy takes time */
     reading = false;
     consumed++;
     taken = consumed
  fi
}

/* = MessageSender::OfferCrossMemoryRead (xla_patch/thunks/cpu/message_sender.cc) */
/* = MessageSender::AdvanceCrossMemoryRead (xla_patch/thunks/cpu/message_sender.cc) */
proctype Sender() {
  byte mine = 1, number;
  do
  :: Post();
     if
     :: taken == READS ->
        Free();
        LetGo()
     :: failed ->
        Abandon();
        break
     fi;
     if
     :: mine == 1 -> mine = 2 /* the next operation of the same home */
     :: else -> break
     fi
  od
}

/* = MessageReceiver::Look (xla_patch/thunks/cpu/message_receiver.cc) */
proctype Receiver(byte mine) {
  byte found, seen_key, consumed;
  do
  :: consumed == READS -> break
  :: failed -> break
  :: consumed < READS && !failed ->
     if
     :: found == 0 -> Find()
     :: else -> Read()
     fi
  od
}

/* environment: the job fails, or not */
inline Fail() {
  if
  :: failed = true
  :: skip
  fi
}

/* environment: the threads of one process, and the end of it */
init {
  atomic {
    run Sender();
    run Receiver(1);
    run Receiver(2)
  };
  Fail();
  _nr_pr == 1;
  assert(failed || (state == 0 && let_go[1] && let_go[2]))
}
