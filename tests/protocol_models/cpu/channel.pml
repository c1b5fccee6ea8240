/* Messages through slots: grants, credits, withdrawal, blocks that are used again, and operations that are given up.
 *
 * One process receives MESSAGES messages from another, each in an operation of its own, which run at once and in any
 * order. They share BLOCKS blocks of SLOTS slots and RECORDS records of the grant board.
 */
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef CHUNKS
#define CHUNKS 3
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef RECORDS
#define RECORDS 1
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#ifndef MAY_FAIL
#define MAY_FAIL 2 /* the first of the two processes, or both */
#endif
#define SENDER 0
#define RECEIVER 1
#define VALUE(key, chunk) ((key) * 16 + (chunk) + 1)

typedef Record {
  byte state;
  byte key;
  byte block;
  byte credit
}
Record board[RECORDS];
bool used[RECORDS];
byte generation;

typedef Block {
  byte arrived;
  byte slot[SLOTS] /* 0: its content was consumed */
}
Block arena[BLOCKS];
byte owner[BLOCKS]; /* the key of the message that has the block, 0: none */

bool failed[2]; /* by process */
byte finished;

/* = TakeBlocks (xla_patch/thunks/cpu/blocks.cc) */
/* = SlotPool::Take (xla_patch/thunks/cpu/slot_pool.cc) */
inline TakeBlock(key) {
  atomic {
    block = 0;
    do
    :: block < BLOCKS && owner[block] != 0 -> block++
    :: else -> break
    od;
    if
    :: block < BLOCKS -> owner[block] = key
    :: else -> skip
    fi
  }
}

/* = ReturnBlocks (xla_patch/thunks/cpu/blocks.cc) */
/* = SlotPool::Return (xla_patch/thunks/cpu/slot_pool.cc) */
inline ReturnBlock() {
  owner[block] = 0
}

/* = ReceiveChannel::Open (xla_patch/thunks/cpu/channel.cc) */
inline OpenReceive(key_) {
  arena[block].arrived = 0;
  Publish(key_)
}

/* = GrantBoard::Publish (xla_patch/thunks/cpu/grant_board.cc) */
inline Publish(key_) {
  record = 0;
  do
  :: record < RECORDS && used[record] -> record++
  :: record < RECORDS && !used[record] ->
     if
     :: atomic { !used[record] -> used[record] = true }; break
     :: used[record] -> record++
     fi
  :: record == RECORDS -> break
  od;
  if
  :: record < RECORDS ->
     board[record].key = key_;
     board[record].block = block;
     board[record].credit = 0;
     atomic { generation++; mine = generation };
     board[record].state = mine
  :: else -> skip
  fi
}

/* = GrantBoard::Withdraw (xla_patch/thunks/cpu/grant_board.cc) */
/* = ReceiveChannel::Close (xla_patch/thunks/cpu/channel.cc) */
inline Withdraw() {
  board[record].state = 0;
  used[record] = false
}

/* = ReceiveChannel::Slot (xla_patch/thunks/cpu/channel.cc) */
/* = Spans::CopyFrom (xla_patch/thunks/cpu/spans.h) */
inline CopyOut(key) {
  atomic {
    assert(arena[block].slot[consumed % SLOTS] == VALUE(key, consumed)); /* none lost, none twice */
    arena[block].slot[consumed % SLOTS] = 0
  }
}

/* = MessageReceiver::Consume (xla_patch/thunks/cpu/message_receiver.cc) */
/* = GrantBoard::Credit (xla_patch/thunks/cpu/grant_board.cc) */
inline Credit() {
  consumed++;
  if
  :: consumed < CHUNKS -> board[record].credit = consumed
  :: else -> skip
  fi
}

/* = GrantBoard::Find (xla_patch/thunks/cpu/grant_board.cc) */
/* = SendChannel::Open (xla_patch/thunks/cpu/channel.cc) */
inline OpenSend(key) {
  record = 0;
  found = false;
  do
  :: record < RECORDS && !found ->
     seen = board[record].state;
     if
     :: seen != 0 ->
        seen_key = board[record].key;
        block = board[record].block;
        sent = board[record].credit;
        if
        :: board[record].state == seen && seen_key == key -> found = true
        :: else -> record++
        fi
     :: else -> record++
     fi
  :: else -> break
  od
}

/* = Spans::CopyTo (xla_patch/thunks/cpu/spans.h) */
inline CopyIn(key) {
  atomic {
    assert(owner[block] == key); /* nothing is put into a block that was given back */
    assert(arena[block].slot[sent % SLOTS] == 0); /* nothing is overwritten */
    arena[block].slot[sent % SLOTS] = VALUE(key, sent)
  }
}

/* = SendChannel::Signal (xla_patch/thunks/cpu/channel.cc) */
inline Signal() {
  sent++;
  arena[block].arrived = sent
}

/* = CollectiveOperation::GiveBackBlocks (xla_patch/thunks/cpu/collective_operation.cc) */
inline GiveBackBlocks() {
  Withdraw();
  ReturnBlock();
  atomic { finished++; goto ended }
}

/* = CollectiveOperation::Abandon (xla_patch/thunks/cpu/collective_operation.cc) */
inline Abandon() {
  goto ended /* a late sender may write: grant and block stay as they are */
}

/* = ProgressEngine::CheckForFailure (xla_patch/shm/progress_engine.cc) */
inline Fail(process) {
  failed[process] = true
}

/* = MessageReceiver::Receive (xla_patch/thunks/cpu/message_receiver.cc) */
proctype Receiver(byte key) {
  byte block = BLOCKS, record = RECORDS, consumed, mine;
  do
  :: failed[RECEIVER] -> Abandon()
  :: !failed[RECEIVER] && block == BLOCKS -> TakeBlock(key)
  :: !failed[RECEIVER] && block < BLOCKS && record == RECORDS -> OpenReceive(key)
  :: !failed[RECEIVER] && block < BLOCKS && record < RECORDS && arena[block].arrived > consumed ->
     CopyOut(key);
     Credit();
     if
     :: consumed == CHUNKS -> GiveBackBlocks()
     :: else -> skip
     fi
  od;
ended:
}

/* = MessageSender::AdvanceThroughSlots (xla_patch/thunks/cpu/message_sender.cc) */
proctype Sender(byte key) {
  byte block, record, sent, seen, seen_key;
  bool found;
  do
  :: failed[SENDER] -> Abandon()
  :: !failed[SENDER] && !found -> OpenSend(key)
  /* = SendChannel::FreeSlot (xla_patch/thunks/cpu/channel.cc) */
  :: !failed[SENDER] && found && (sent < SLOTS || board[record].credit + SLOTS > sent) ->
     CopyIn(key);
     Signal();
     if
     :: sent == CHUNKS -> break
     :: else -> skip
     fi
  od;
ended:
}

/* = ProgressEngine::PollUntilFinished (xla_patch/shm/progress_engine.cc) */
proctype Engine(byte process) {
  if
  :: process < MAY_FAIL -> Fail(process)
  :: failed[1 - process] -> Fail(process)
  :: finished == MESSAGES -> skip
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
    run Engine(SENDER);
    run Engine(RECEIVER)
  }
  _nr_pr == 1;
  if
  :: finished == MESSAGES ->
     for (i : 0 .. RECORDS - 1) {
       assert(!used[i] && board[i].state == 0)
     }
     for (i : 0 .. BLOCKS - 1) {
       assert(owner[i] == 0)
     }
  :: else -> assert(failed[SENDER] && failed[RECEIVER])
  fi
}
