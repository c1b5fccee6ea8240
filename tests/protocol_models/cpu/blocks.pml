/* Blocks of several messages: an operation takes the blocks of all its messages, or none.
 *
 * Three PEs run two collectives, in any order, in which each sends a message to each other one. A PE has BLOCKS blocks,
 * fewer than both collectives need. A message is one chunk, so it needs a grant and no credit (channel.pml has those).
 */
#ifndef BLOCKS
#define BLOCKS 3
#endif
#define PES 3
#define OPERATIONS 2
#define MESSAGES (PES - 1)
/* The words of the messages of an operation from a PE to another. */
#define MESSAGE(operation, from, to) (((operation) * PES + (from)) * PES + (to))
#define TO(pe, step) ((pe + step) % PES)

byte free[PES] = BLOCKS;
bool granted[18];
bool arrived[18];

/* = TakeBlocks (xla_patch/thunks/cpu/blocks.cc) */
inline TakeBlocks() {
  free[pe] = free[pe] - MESSAGES;
  has_blocks = true
}

/* = CollectiveOperation::OpenGrants (xla_patch/thunks/cpu/collective_operation.cc) */
/* = MessageReceiver::Grant (xla_patch/thunks/cpu/message_receiver.cc) */
inline OpenGrants() {
  TakeBlocks();
  granted[MESSAGE(operation, TO(pe, 1), pe)] = true;
  granted[MESSAGE(operation, TO(pe, 2), pe)] = true
}

/* = MessageSender::AdvanceThroughSlots (xla_patch/thunks/cpu/message_sender.cc) */
inline Put(step) {
  assert(!arrived[MESSAGE(operation, pe, TO(pe, step))]);
  granted[MESSAGE(operation, pe, TO(pe, step))] = false;
  arrived[MESSAGE(operation, pe, TO(pe, step))] = true;
  sent++
}

/* = MessageReceiver::Receive (xla_patch/thunks/cpu/message_receiver.cc) */
inline Receive(step) {
  assert(has_blocks); /* nothing arrives in a block that was given back */
  arrived[MESSAGE(operation, TO(pe, step), pe)] = false;
  received++
}

/* = CollectiveOperation::GiveBackBlocks (xla_patch/thunks/cpu/collective_operation.cc) */
/* = ReturnBlocks (xla_patch/thunks/cpu/blocks.cc) */
inline GiveBackBlocks() {
  free[pe] = free[pe] + MESSAGES;
  has_blocks = false
}

/* = CollectiveOperation::Poll (xla_patch/thunks/cpu/collective_operation.cc) */
/* = CollectiveOperation::AdvanceOnce (xla_patch/thunks/cpu/collective_operation.cc) */
proctype Operation(byte operation, pe) {
  bool has_blocks;
  byte sent, received;
  do
  :: atomic { !has_blocks && received == 0 && free[pe] >= MESSAGES -> OpenGrants() }
  :: atomic { granted[MESSAGE(operation, pe, TO(pe, 1))] -> Put(1) }
  :: atomic { granted[MESSAGE(operation, pe, TO(pe, 2))] -> Put(2) }
  :: atomic { arrived[MESSAGE(operation, TO(pe, 1), pe)] -> Receive(1) }
  :: atomic { arrived[MESSAGE(operation, TO(pe, 2), pe)] -> Receive(2) }
  :: atomic { has_blocks && received == MESSAGES -> GiveBackBlocks() }
  :: sent == MESSAGES && received == MESSAGES && !has_blocks -> break
  od
}

/* environment: XLA starts all operations of all PEs, in any order, and the job ends */
init {
  byte i;
  atomic {
    for (i : 0 .. PES - 1) {
      run Operation(0, i);
      run Operation(1, i)
    }
  }
  _nr_pr == 1;
  for (i : 0 .. PES - 1) {
    assert(free[i] == BLOCKS)
  }
}
