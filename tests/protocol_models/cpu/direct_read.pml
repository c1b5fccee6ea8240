/* A message that the receiver reads out of the sender's memory, and goes on through slots if a read is refused.
 *
 * The message has POSITIONS positions; a chunk, of CHUNK positions, fills a slot of the SLOTS. The source is ready at
 * first, or grows (the results of a reduction). What the receiver has used may be overwritten at once: in a two-shot
 * all-reduce it lets the owner's results come. When the sender is done, its memory is let go.
 */
#ifndef POSITIONS
#define POSITIONS 5
#endif
#define CHUNK 2
#define SLOTS 2
#ifndef MAY_REFUSE
#define MAY_REFUSE 1
#endif
#define REFUSED 255
#define OVERWRITTEN 100
#define VALUE(position) ((position) + 1)

/* The mailbox. */
bool posted;
byte ready; /* of the source, as the receiver sees it */
byte taken;

/* The grant, and the block. */
bool has_block;
bool granted;
byte credit;
byte arrived;
byte slot[4]; /* position p of chunk c is at (c % SLOTS) * CHUNK + p % CHUNK; 0: consumed */

byte source[POSITIONS]; /* 0: not reduced yet */
byte reduced;
bool source_freed;
byte result[POSITIONS];
byte used; /* positions that the receiver has used */

#define CHUNK_END(chunk) (((chunk) + 1) * CHUNK < POSITIONS -> ((chunk) + 1) * CHUNK : POSITIONS)
#define PLACE(position) (((position) / CHUNK % SLOTS) * CHUNK + (position) % CHUNK)

/* = MessageSender::OfferCrossMemoryRead (xla_patch/thunks/cpu/message_sender.cc) */
/* = Mailboxes::Post (xla_patch/thunks/cpu/mailboxes.cc) */
inline Offer() {
  ready = reduced;
  taken = 0;
  posted = true
}

/* = MessageSender::AdvanceCrossMemoryRead (xla_patch/thunks/cpu/message_sender.cc) */
inline MakeReady() {
  ready = reduced
}

/* = Mailboxes::Free (xla_patch/thunks/cpu/mailboxes.h) */
inline FreeMailbox() {
  posted = false
}

/* = SendChannel::Open (xla_patch/thunks/cpu/channel.cc) */
inline OpenSend() {
  sent = credit
}

/* = Spans::CopyTo (xla_patch/thunks/cpu/spans.h) */
inline CopyIn() {
  for (position : sent * CHUNK .. CHUNK_END(sent) - 1) {
    assert(has_block && !source_freed);
    assert(slot[PLACE(position)] == 0); /* nothing is overwritten */
    assert(source[position] != 0); /* ready */
    slot[PLACE(position)] = source[position]
  }
}

/* = SendChannel::Signal (xla_patch/thunks/cpu/channel.cc) */
inline Signal() {
  sent++;
  arrived = sent
}

/* = ReceiveChannel::Open (xla_patch/thunks/cpu/channel.cc) */
/* = GrantBoard::Publish (xla_patch/thunks/cpu/grant_board.cc) */
inline OpenReceive() {
  arrived = 0;
  credit = consumed / CHUNK;
  granted = true;
  open = true
}

/* = MessageReceiver::Grant (xla_patch/thunks/cpu/message_receiver.cc) */
inline Grant() {
  has_block = true;
  OpenReceive()
}

/* = ReceiveChannel::Close (xla_patch/thunks/cpu/channel.cc) */
inline Close() {
  granted = false;
  open = false
}

/* = ReturnBlocks (xla_patch/thunks/cpu/blocks.cc) */
inline ReturnBlock() {
  has_block = false
}

/* = MessageReceiver::ReadCrossMemory (xla_patch/thunks/cpu/message_receiver.cc) */
/* = CrossMemoryReader::Read (xla_patch/shm/cross_memory_reader.cc) */
inline Read(end) {
  for (position : consumed .. end - 1) {
    assert(!source_freed); /* nothing is read that was let go */
    result[position] = source[position]
  }
}

/* = MessageReceiver::Receive (xla_patch/thunks/cpu/message_receiver.cc) */
inline Take(end) {
  for (position : consumed .. end - 1) {
    assert(result[position] == VALUE(position))
  }
  consumed = end;
  used = end;
  taken = consumed
}

/* = MessageReceiver::RefuseCrossMemoryRead (xla_patch/thunks/cpu/message_receiver.cc) */
inline Refuse() {
  taken = REFUSED;
  refused = true;
  reads = false;
  if
  :: has_block -> OpenReceive()
  :: else -> skip
  fi
}

/* = MessageReceiver::Look (xla_patch/thunks/cpu/message_receiver.cc) */
/* = MessageReceiver::Consume (xla_patch/thunks/cpu/message_receiver.cc) */
inline ConsumeSlot() {
  chunk = consumed / CHUNK;
  for (position : chunk * CHUNK .. CHUNK_END(chunk) - 1) {
    assert(position < consumed || slot[PLACE(position)] == VALUE(position));
    slot[PLACE(position)] = 0
  }
  consumed = CHUNK_END(chunk);
  used = consumed;
  if
  :: consumed < POSITIONS -> credit = consumed / CHUNK
  :: else -> skip
  fi
}

/* = CollectiveOperation::Poll (xla_patch/thunks/cpu/collective_operation.cc) */
inline LetGo() {
  source_freed = true
}

/* = MessageSender::ChooseProtocol (xla_patch/thunks/cpu/message_sender.cc) */
/* = MessageSender::Advance (xla_patch/thunks/cpu/message_sender.cc) */
proctype Sender() {
  byte sent, position;
  bool may_be_read = true;
  /* environment: no mailbox is free */
  if
  :: may_be_read = false
  :: true
  fi;
  if
  :: may_be_read ->
     Offer();
     do
     :: taken == REFUSED ->
        FreeMailbox();
        break
     :: taken == POSITIONS ->
        FreeMailbox();
        goto done
     :: taken != REFUSED && taken != POSITIONS && reduced > ready -> MakeReady()
     od
  :: else -> skip
  fi;
  granted;
  OpenSend();
  do
  /* = SendChannel::FreeSlot (xla_patch/thunks/cpu/channel.cc) */
  :: sent * CHUNK < POSITIONS && CHUNK_END(sent) <= reduced && (sent < SLOTS || credit + SLOTS > sent) ->
     CopyIn();
     Signal()
  :: sent * CHUNK >= POSITIONS -> break
  od;
done:
  LetGo()
}

/* = MessageReceiver::DetermineProtocol (xla_patch/thunks/cpu/message_receiver.cc) */
proctype Receiver() {
  byte consumed, position, chunk, end;
  bool open, reads, refused;
  do
  :: !reads && !refused && posted ->
     reads = true;
     if
     :: open -> Close()
     :: else -> skip
     fi
  :: !reads && !has_block && consumed < POSITIONS -> Grant()
  :: reads && consumed < ready ->
     if
     :: end = consumed + 1
     :: end = ready
     fi;
     if
     :: true -> Read(end); Take(end)
     :: MAY_REFUSE -> Refuse() /* environment: the kernel does not permit it any longer */
     fi
  :: !reads && open && consumed < POSITIONS && arrived * CHUNK > consumed -> ConsumeSlot()
  :: consumed == POSITIONS -> break
  od;
  if
  :: open -> Close()
  :: else -> skip
  fi;
  if
  :: has_block -> ReturnBlock()
  :: else -> skip
  fi
}

/* = Reducer::Advance (xla_patch/thunks/cpu/reducer.cc) */
inline Reduce() {
  atomic {
    source[reduced] = VALUE(reduced);
    reduced++
  }
}

/* environment: another operation of the sender fills the source while it is sent */
proctype Reduction() {
  do
  :: reduced < POSITIONS -> Reduce()
  :: else -> break
  od
}

/* environment: memory that the receiver has used is overwritten */
inline Overwrite() {
  atomic {
    source[overwritten] = OVERWRITTEN;
    overwritten++
  }
}

/* environment: the results of the receiver come to where the source was */
proctype Overwriter() {
  byte overwritten;
  do
  :: overwritten < used -> Overwrite()
  :: overwritten == POSITIONS -> break
  od
}

/* environment: the operations start in any order, and end */
init {
  atomic {
    run Sender();
    run Receiver();
    run Reduction();
    run Overwriter()
  }
  _nr_pr == 1;
  assert(!posted && !granted && !has_block)
}
