/* An operation is given up while another thread of its process reads its operand.
 *
 * Between PEs of one process a direct read is a copy by the receiver's thread. The sender's thread, when the job has
 * failed, takes the mail back and waits for the reader before it lets the operand go. Until then no other thread of the
 * sender may write its mail, because the reader still reads the addresses.
 */
#ifndef READS
#define READS 2
#endif

#define REVOKED 9

byte state; /* of the mailbox; 0: free */
bool claimed;
byte key;
byte addresses; /* whose they are */
byte reading; /* readers */
byte taken;
byte posted; /* numbers of states */
bool failed;
bool let_go[3]; /* the operand of message 1 or 2 */
bool read_all[3];

/* = Mailboxes::Claim (xla_patch/thunks/cpu/mailboxes.cc) */
inline Claim() {
  atomic { !claimed && state == 0 -> claimed = true }
}

/* = Mailboxes::Post (xla_patch/thunks/cpu/mailboxes.cc) */
inline Post() {
  addresses = mine;
  key = mine;
  taken = 0;
  atomic { posted++; number = posted };
  state = number;
  claimed = false
}

/* = Mailboxes::Free (xla_patch/thunks/cpu/mailboxes.h) */
inline Free() {
  state = 0
}

/* = MessageSender::Revoke (xla_patch/thunks/cpu/message_sender.cc) */
inline Revoke() {
  state = REVOKED;
  reading == 0;
  Free()
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
  :: found != 0 && found != REVOKED ->
     seen_key = key;
     if
     :: seen_key == mine && state == found -> skip
     :: else -> found = 0
     fi
  :: else -> found = 0
  fi
}

/* = MessageReceiver::ReadCrossMemory (xla_patch/thunks/cpu/message_receiver.cc) */
inline Read() {
  reading++;
  if
  :: state != found -> reading--
  :: else ->
     assert(!let_go[mine] && addresses == mine);
     assert(!let_go[mine] && addresses == mine); /* a copy takes time */
     consumed++;
     if
     :: consumed == READS -> read_all[mine] = true
     :: else -> skip
     fi;
     taken = consumed;
     reading--
  fi
}

/* Two threads of the sender's process, each with an operation of the same home. */
/* = MessageSender::OfferCrossMemoryRead (xla_patch/thunks/cpu/message_sender.cc) */
/* = MessageSender::AdvanceCrossMemoryRead (xla_patch/thunks/cpu/message_sender.cc) */
proctype Sender(byte mine) {
  byte number;
  if
  :: Claim();
     Post();
     if
     :: taken == READS ->
        assert(read_all[mine]);
        Free();
        LetGo()
     :: failed -> Abandon()
     fi
  :: failed -> LetGo()
  fi
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
     :: else -> skip
     fi;
     if
     :: found != 0 -> Read()
     :: else -> skip
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
    run Sender(1);
    run Sender(2);
    run Receiver(1);
    run Receiver(2)
  };
  Fail();
  _nr_pr == 1;
  assert(failed || (state == 0 && let_go[1] && let_go[2]))
}
