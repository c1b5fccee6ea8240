/* Eager messages: mailboxes, and slots for messages that find none free.
 *
 * One process sends MESSAGES messages to another, each in an operation of its own, which run at once and in any order.
 * A message fits a mailbox, of which there are ENTRIES, and all may be used by any message. The way through slots is
 * one slot a message (channel.pml has the whole of it).
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef ENTRIES
#define ENTRIES 1
#endif
#ifndef LOOKS
#define LOOKS 1 /* before a receiver grants; it may look late */
#endif
#define KEYS (MESSAGES + 1) /* keys begin at 1 */

typedef Entry {
  byte state; /* 0: free */
  byte key;
  byte data
}
Entry row[ENTRIES];
bool claimed[ENTRIES];
byte posted; /* numbers of states */

/* Grants and blocks of the way through slots, by key. */
bool granted[KEYS];
bool has_block[KEYS];
byte slot[KEYS]; /* 0: empty */

byte consumed[KEYS]; /* how often each message was used */

/* = Mailboxes::Claim (xla_patch/thunks/cpu/mailboxes.cc) */
inline Claim() {
  entry = 0;
  claim = false;
  do
  :: entry < ENTRIES && !claim ->
     if
     :: row[entry].state != 0 -> entry++
     :: else ->
        atomic { was = claimed[entry]; claimed[entry] = true };
        if
        :: was -> entry++
        :: else ->
           if
           :: row[entry].state == 0 -> claim = true
           :: else ->
              claimed[entry] = false;
              entry++
           fi
        fi
     fi
  :: else -> break
  od
}

/* = MessageSender::SendEager (xla_patch/thunks/cpu/message_sender.cc) */
inline SendEager() {
  Claim();
  if
  :: claim ->
     assert(row[entry].state == 0);
     row[entry].data = key;
     Post()
  :: else -> skip
  fi
}

/* = Mailboxes::Post (xla_patch/thunks/cpu/mailboxes.cc) */
inline Post() {
  row[entry].key = key;
  atomic { posted++; number = posted };
  row[entry].state = number;
  claimed[entry] = false
}

/* = Mailboxes::Find (xla_patch/thunks/cpu/mailboxes.cc) */
inline Find() {
  entry = 0;
  found = 0;
  do
  :: entry < ENTRIES && found == 0 ->
     found = row[entry].state;
     if
     :: found == 0 -> entry++
     :: else ->
        seen_key = row[entry].key;
        if
        :: seen_key == key && row[entry].state == found -> skip
        :: else ->
           found = 0;
           entry++
        fi
     fi
  :: else -> break
  od
}

/* = Mailboxes::Release (xla_patch/thunks/cpu/mailboxes.h) */
inline Release() {
  row[entry].state = 0
}

/* = MessageReceiver::Grant (xla_patch/thunks/cpu/message_receiver.cc) */
inline Grant() {
  has_block[key] = true;
  granted[key] = true;
  has_granted = true
}

/* = MessageReceiver::Close (xla_patch/thunks/cpu/message_receiver.cc) */
inline Close() {
  granted[key] = false
}

/* = ReturnBlocks (xla_patch/thunks/cpu/blocks.cc) */
inline ReturnBlock() {
  has_block[key] = false
}

/* = SendChannel::Open (xla_patch/thunks/cpu/channel.cc) */
inline OpenSend() {
  open = granted[key]
}

/* = MessageSender::AdvanceThroughSlots (xla_patch/thunks/cpu/message_sender.cc) */
inline Put() {
  atomic {
    assert(has_block[key] && slot[key] == 0);
    slot[key] = key
  }
}

/* = MessageReceiver::Consume (xla_patch/thunks/cpu/message_receiver.cc) */
inline Consume(bytes) {
  atomic {
    assert(bytes == key);
    consumed[key]++
  }
}

/* = MessageSender::ChooseProtocol (xla_patch/thunks/cpu/message_sender.cc) */
proctype Sender(byte key) {
  byte entry, number;
  bool claim, was, open;
  do
  :: SendEager();
     if
     :: claim -> break
     :: else ->
        OpenSend();
        if
        :: open ->
           Put();
           break
        :: else -> skip
        fi
     fi
  od
}

/* = MessageReceiver::DetermineProtocol (xla_patch/thunks/cpu/message_receiver.cc) */
/* = CollectiveOperation::OpenGrants (xla_patch/thunks/cpu/collective_operation.cc) */
/* = CollectiveOperation::GiveBackBlocks (xla_patch/thunks/cpu/collective_operation.cc) */
proctype Receiver(byte key) {
  byte entry, found, seen_key, looks;
  bool has_granted;
  do
  :: Find();
     if
     :: found != 0 ->
        if
        :: has_granted -> Close()
        :: else -> skip
        fi;
        Consume(row[entry].data);
        Release();
        break
     :: found == 0 && !has_granted -> Grant()
     :: found == 0 && !has_granted && looks < LOOKS -> looks++
     :: found == 0 && has_granted && slot[key] != 0 ->
        Consume(slot[key]);
        Close();
        break
     :: found == 0 && has_granted && slot[key] == 0 -> skip
     fi
  od;
  if
  :: has_granted -> ReturnBlock()
  :: else -> skip
  fi
}

/* environment: two processes start their operations in any order, and end */
init {
  byte i;
  atomic {
    for (i : 1 .. MESSAGES) {
      run Receiver(i);
      run Sender(i)
    }
  }
  _nr_pr == 1;
  for (i : 1 .. MESSAGES) {
    assert(consumed[i] == 1 && !granted[i] && !has_block[i])
  }
  for (i : 0 .. ENTRIES - 1) {
    assert(row[i].state == 0 && !claimed[i])
  }
}
