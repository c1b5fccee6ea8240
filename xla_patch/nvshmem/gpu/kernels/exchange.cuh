// Messages between the lanes of PEs (docs/protocol.md, "Kernels").
//
// Lane b and lane b of another PE number their messages from 1, in both directions alike. Message m from a sender goes
// through slot m mod 4 of the pair in the receiver's arena; then the sender stores m, with the tag of the collective,
// to the slot's word there. A PE with nothing to send stores the word alone. A message of another collective stops the
// kernel.
//
// A PE sends message m once a message of the other PE says that the slot is empty, that of message m - 4, and that its
// word was seen. So no barrier is needed. A move takes message m - 1 behind its message m, so message m - 2 says that;
// but the first one of a kernel, and each of a reduction with two exchanges a chunk (kernels.cu), waits for message
// m - 1, because the other PE may have posted m - 2 with three full slots. So messages m - 1 and m are on their way
// while a lane copies, in both directions.
//
// With many PEs the slots of a pair are small. If each PE receives from one other, large messages go through larger
// slots, which all senders to a PE share. A kernel first posts a message without data, and sends its first chunk once
// the peers have done so too. Then their slots are empty: kernels of a stream run one after the other.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_EXCHANGE_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_EXCHANGE_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/copies.cuh"
#include "xla_patch/nvshmem/gpu/kernels/messages.cuh"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"

namespace xla_shmem::gpu {

// What a thread does that has waited for long, or in vain: called, so that it takes no registers of what goes on.

// Looks for orders of the watchdog, while it waits for a PE.
XLA_SHMEM_CALLED void Obey(Word* progress, int pe) {
  const Word order = LoadAcquire(progress + kOrder);
  if (order != 0) StoreRelease(progress + PlaceOf(kLate, pe), 1);
  if (order == kOrderTrap) Trap();
  Pause();
}

// Says why the kernel cannot go on. The watchdog tells the user, and then orders the trap.
XLA_SHMEM_CALLED void Stop(Word* progress, Word operation, Fault fault, int pe) {
  StoreRelease(progress + kOperation, operation);
  StoreRelease(progress + kFaultPe, pe);
  StoreRelease(progress + kFault, fault);
  while (LoadAcquire(progress + kOrder) != kOrderTrap) Pause();
  Trap();
}

// `tags`: kOtherTag.
XLA_SHMEM_CALLED void StopAtOther(Word* progress, Word operation, int pe, Word tags) {
  StoreRelease(progress + PlaceOf(kOtherTag, pe), tags);
  Stop(progress, operation, kOtherCollective, pe);
}

// A block's ends of its pairs, whichever way its messages take. All threads of the block call every method together,
// unless it says otherwise.
class LaneBase {
 public:
  __device__ void Begin() {
    BeginKernel();
    ForPeers([&](int member) { messages_[member] = *Sent(sent_, member); });
    __syncthreads();
  }

  __device__ void End() {
    ForPeers([&](int member) { *Sent(sent_, member) = messages_[member]; });
    EndKernel();
  }

  // Tell the host. It reads no data by the words of progress, so their stores need no fence.
  __device__ void BeginKernel() const {
    const LaneSet& lanes = arguments_.lanes;
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    const Word ticket = lanes.ticket != 0 ? lanes.ticket : NumberOfWord(lanes.launches[16]);
    StorePairRelaxed(lanes.progress + kBegun, *lanes.launches + 1, TaggedWord(ticket, arguments_.operation));
  }
  __device__ void EndKernel() const {
    const LaneSet& lanes = arguments_.lanes;
    __syncthreads();
    if (threadIdx.x != 0) return;
    Word* const ended_blocks = lanes.launches + 8;
    if (CountBlock(ended_blocks) != gridDim.x - 1) return;
    // The next kernel sees these words because it begins behind this one.
    *ended_blocks = 0;
    Word* const finished = lanes.launches + 16;
    if (lanes.ends) {
      *finished = TaggedWord(TagOfWord(*finished) + 1, lanes.ticket != 0 ? lanes.ticket : NumberOfWord(*finished));
    }
    *lanes.launches += 1;
    StorePairRelaxed(lanes.progress + kEnded, *lanes.launches, *finished);
  }

  // Peers are divided among the threads.
  template <typename Body>
  __device__ void ForPeers(Body body) const {
    for (int member = threadIdx.x; member < arguments_.members; member += blockDim.x) {
      if (member != arguments_.me) body(member);
    }
  }

  // Of one thread.
  __device__ void Refuse(Fault fault, int pe) const {
    Stop(arguments_.lanes.progress, arguments_.operation, fault, pe);
  }

  __device__ bool Receives(int member) const {
    return arguments_.receive_from == kAllMembers || arguments_.receive_from == member;
  }

 protected:
  // `messages`: shared by the block, the word of the last message to each member before this kernel, or in packets of
  // its own message. `sent`: where they lie between kernels, of LaneSet.
  __device__ LaneBase(const ExchangeArguments& arguments, Word* messages, Word sent)
      : arguments_(arguments), messages_(messages), sent_(sent) {}

  // Waits until the peer's `word` says that its message has come, of the number and the collective of `expected`. Of
  // one thread.
  template <bool kPackets>
  __device__ void AwaitWord(int member, const Word* word, Word expected) const {
    for (unsigned looks = 1;; ++looks) {
      const Word seen = LoadRelaxed(word);
      // The word stays until this PE has sent its next message. Packets need no order: each is looked at by itself.
      if (seen == expected && (kPackets || LoadAcquire(word) == expected)) return;
      if (NumberOfWord(seen) == NumberOfWord(expected)) RefuseOther(member, expected, seen);
      if (Heed(looks, member)) RefuseElsewhere<kPackets>(member, word, expected);
    }
  }

  // Between two looks of one thread at what a peer sends: from time to time obeys the watchdog. Whether it has.
  __device__ bool Heed(unsigned looks, int member) const {
    constexpr unsigned kLooks = 256;  // the orders of the watchdog are far away
    if (looks % kLooks != 0) return false;
    Obey(arguments_.lanes.progress, arguments_.pes[member]);
    return true;
  }

  // The word of a message in the arena of its receiver, and that of a message in packets.
  __device__ Word* Arrived(char* arena, int sender, Word message) const {
    return reinterpret_cast<Word*>(arena + arguments_.lanes.arrived + kLaneSlots * Row(sender)) + message % kLaneSlots;
  }
  __device__ Word* PacketSlot(char* arena, int owner, int sender, Word message) const {
    const LaneSet& lanes = arguments_.lanes;
    const Word slot = SlotIndex<kPacketSlots>(owner, sender, message);
    return reinterpret_cast<Word*>(arena + lanes.packets + slot * lanes.packet_slot_bytes);
  }
  // A PE does not send to itself, so it has slots for n - 1 senders.
  template <int kSlots>
  __device__ Word SlotIndex(int owner, int sender, Word message) const {
    const Word pair = Word{blockIdx.x} * (arguments_.lanes.n_pes - 1) + (sender < owner ? sender : sender - 1);
    return pair * kSlots + message % kSlots;
  }
  __device__ char* own_arena() const { return arguments_.arenas[arguments_.me]; }
  // A word that a lane keeps between kernels: a PE sends no messages to itself.
  __device__ Word* OwnWord() const { return Sent(sent_, arguments_.me); }

  const ExchangeArguments& arguments_;
  Word* const messages_;

 private:
  __device__ Word Row(int pe) const { return (Word{blockIdx.x} * arguments_.lanes.n_pes + pe) * sizeof(Word); }
  __device__ Word* Sent(Word sent, int member) const {
    return reinterpret_cast<Word*>(own_arena() + sent + Row(arguments_.pes[member]));
  }

  __device__ void RefuseOther(int member, Word expected, Word seen) const {
    StopAtOther(arguments_.lanes.progress, arguments_.operation, arguments_.pes[member],
                TaggedWord(TagOfWord(expected), TagOfWord(seen)));
  }

  // Refuses if the peer has sent its next message the other way: then it is at another collective. If it had sent the
  // awaited one before, that would be here too, because a kernel's stores are there when the next kernel begins.
  template <bool kPackets>
  __device__ void RefuseElsewhere(int member, const Word* awaited, Word expected) const {
    const LaneSet& lanes = arguments_.lanes;
    if (lanes.packet_slot_bytes == 0) return;
    const int pe = arguments_.pes[member];
    const Word next = NumberOfWord(*Sent(kPackets ? lanes.sent : lanes.packets_sent, member) + 1);
    const Word seen =
        LoadAcquire(kPackets ? Arrived(own_arena(), pe, next) : PacketSlot(own_arena(), lanes.pe, pe, next));
    if (NumberOfWord(seen) == next && LoadRelaxed(awaited) != expected) RefuseOther(member, expected, seen);
  }

  const Word sent_;
};

// Messages through slots, each announced by a word behind it. The messages of a kernel are counted from 1.
class Lane : public LaneBase {
 public:
  __device__ Lane(const ExchangeArguments& arguments, Word* messages)
      : LaneBase(arguments, messages, arguments.lanes.sent) {}

  // The number of the last message that this PE has posted.
  __device__ unsigned posted() const { return posted_; }

  // Waits for a message of all peers, or of those alone that this PE receives from.
  __device__ void AwaitPeers(bool all, unsigned message) const {
    ForPeers([&](int member) {
      if (all || Receives(member)) Await(member, message);
    });
    __syncthreads();
  }

  // The next message is in the slots of the peers: tells them. Some threads may wait for the fence while others go on.
  __device__ void Post() {
    __syncthreads();
    ForPeers([&](int member) { PostTo(member); });
    CountMessage();
  }

  __device__ void End() {
    __syncthreads();  // until here other threads look for slots by the words
    ForPeers([&](int member) { Settle(member); });
    LaneBase::End();
  }

  // What the methods above consist of. A thread may call these for its own members of ForPeers.
  __device__ void PostTo(int member) const {
    const Word word = WordOf(member, posted_ + 1);
    StoreRelease(Arrived(arguments_.arenas[member], arguments_.lanes.pe, word), word);
  }
  __device__ void Await(int member, unsigned message) const {
    const Word expected = WordOf(member, message);
    AwaitWord</*kPackets=*/false>(member, Arrived(own_arena(), arguments_.pes[member], expected), expected);
  }
  // This kernel has no more messages for the member.
  __device__ void Settle(int member) const { messages_[member] = WordOf(member, posted_); }
  __device__ void CountMessage() { ++posted_; }

  // Chunks that have been in the staging memory of this lane (multimem.cuh) before this kernel, and those of it.
  __device__ Word staged() const { return *OwnWord(); }
  __device__ void CountStaged(unsigned chunks) const {
    if (threadIdx.x == 0) *OwnWord() += chunks;
  }

  // Where the next message to a member goes; where a message from it is.
  __device__ char* SlotAt(int member) const {
    return Slot(arguments_.arenas[member], arguments_.pes[member], arguments_.lanes.pe,
                messages_[member] + posted_ + 1);
  }
  __device__ char* OwnSlot(int member, unsigned message) const {
    return Slot(own_arena(), arguments_.lanes.pe, arguments_.pes[member], messages_[member] + message);
  }

 private:
  // Message 0 is that of the kernel before.
  __device__ Word WordOf(int member, unsigned message) const {
    return message == 0 ? messages_[member] : TaggedWord(arguments_.tag, messages_[member] + message);
  }
  __device__ char* Slot(char* arena, int owner, int sender, Word message) const {
    const LaneSet& lanes = arguments_.lanes;
    const Word shared = Word{blockIdx.x} * kLaneSlots + message % kLaneSlots;
    const Word slot = lanes.shares_slots ? shared : SlotIndex<kLaneSlots>(owner, sender, message);
    return arena + lanes.slots + slot * lanes.slot_bytes;
  }

  unsigned posted_ = 0;
};

// `range_of(member)`, below: the bytes of the chunk that go to or come from a member.

// Copies the pieces of a chunk to the slots of all peers: of the results, or of operands. `places`: shared by the
// block, an element for each member.
template <bool kResults, typename RangeOf>
__device__ inline void CopyToAll(const CollectiveArguments& arguments, const Lane& lane, const Peers& peers,
                                 RangeOf range_of, char** places) {
  for (int i = threadIdx.x; i < peers.count(); i += blockDim.x) places[i] = lane.SlotAt(peers[i]);
  __syncthreads();
  ForPieces(arguments, arguments.me, range_of, [&](const Piece& piece) {
    CopyToPlaces(places, peers.count(), piece.offset, kResults ? piece.dest : piece.source, piece.bytes);
  });
}

// The message for each peer into its slot.
template <typename RangeOf>
__device__ inline void Send(const CollectiveArguments& arguments, const Lane& lane, RangeOf range_of, char** places) {
  const Peers peers(arguments, arguments.send_to);
  if (arguments.shape != kTwoShot && !arguments.source_has_parts && !arguments.part_of_member) {
    return CopyToAll</*kResults=*/false>(arguments, lane, peers, range_of, places);
  }
  peers.Divide([&](int member, Team team) {
    ForPieces(arguments, member, range_of, [&](const Piece& piece) {
      CopyTogether(lane.SlotAt(member) + piece.offset, piece.source, piece.bytes, team);
    });
  });
}

// A message of the peers to the results.
template <typename RangeOf>
__device__ inline void Take(const CollectiveArguments& arguments, const Lane& lane, unsigned message,
                            RangeOf range_of) {
  Peers(arguments, arguments.receive_from).Divide([&](int member, Team team) {
    ForPieces(arguments, member, range_of, [&](const Piece& piece) {
      CopyTogether(piece.dest, lane.OwnSlot(member, message) + piece.offset, piece.bytes, team);
    });
  });
}

// This PE's message to itself to the results, or zeros.
template <typename RangeOf>
__device__ inline void SetOwn(const CollectiveArguments& arguments, RangeOf range_of) {
  if (!arguments.keeps_own && !arguments.clears) return;
  ForPieces(arguments, arguments.me, range_of, [&](const Piece& piece) {
    if (arguments.clears) {
      ClearTogether(piece.dest, piece.bytes);
    } else if (piece.dest != piece.source) {
      CopyTogether(piece.dest, piece.source, piece.bytes, WholeBlock());
    }
  });
}

// Block b is lane b; each has its share of the bytes, and moves it in chunks. In a turn a lane sends a chunk, and then
// takes what the peers sent in the turn before. `send(range_of)`, `take(message, range_of)`.
template <typename SendChunk, typename TakeChunk>
__device__ inline void RunMove(const CollectiveArguments& arguments, Lane& lane, SendChunk send, TakeChunk take) {
  const Word step = arguments.lanes.slot_bytes;
  if (BeginOfLane(arguments) >= EndOfLane(arguments)) return;
  XLA_SHMEM_NO_UNROLL
  for (Word at = BeginOfLane(arguments);;) {
    const bool sends = at < EndOfLane(arguments);
    const unsigned before = lane.posted();
    const unsigned shares = arguments.lanes.shares_slots;
    if (sends) {
      lane.AwaitPeers(/*all=*/true, before > 1 ? before - 1 : before * shares);
      if (before >= shares) send([&](int member) { return ChunkAt(arguments, at, member); });
      lane.Post();
    }
    if (at != BeginOfLane(arguments)) {
      const auto range_of = [&](int member) { return ChunkAt(arguments, at - step, member); };
      lane.AwaitPeers(/*all=*/false, before);
      take(before, range_of);
      SetOwn(arguments, range_of);
    }
    if (!sends) return;
    if (before >= shares) at += step;
  }
}

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_EXCHANGE_CUH_
