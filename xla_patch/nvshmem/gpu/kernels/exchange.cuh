// Messages between the lanes of PEs (docs/protocol.md, "Kernels").
//
// Lane b and lane b of another PE number their messages from 1, in both directions alike. Message m from a sender goes
// through slot m mod 2 of the pair in the receiver's arena; then the sender stores m, with the tag of the collective,
// to the slot's word there. A PE sends message m once message m - 1 of the other PE has arrived: that PE has then
// emptied the slot of message m - 2, and seen its word. So no barrier is needed. A PE with nothing to send stores the
// word alone. A message of another collective stops the kernel.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_EXCHANGE_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_EXCHANGE_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"

namespace xla_shmem::gpu {

constexpr Word kPack = 16;  // bytes of the widest load

__device__ inline Word Minimum(Word a, Word b) { return a < b ? a : b; }
__device__ inline Word Maximum(Word a, Word b) { return a > b ? a : b; }
__device__ inline Word PadToPack(Word bytes) { return (bytes + kPack - 1) / kPack * kPack; }

template <typename Unit>
__device__ inline void CopyUnits(char* to, const char* from, Word bytes) {
  constexpr int kUnroll = 4;
  const Word units = bytes / sizeof(Unit);
  auto* const out = reinterpret_cast<Unit*>(to);
  const auto* const in = reinterpret_cast<const Unit*>(from);
  Word unit = threadIdx.x;
  for (; unit + (kUnroll - 1) * blockDim.x < units; unit += kUnroll * blockDim.x) {
    Unit loaded[kUnroll];
    for (int i = 0; i < kUnroll; ++i) loaded[i] = in[unit + i * blockDim.x];
    for (int i = 0; i < kUnroll; ++i) out[unit + i * blockDim.x] = loaded[i];
  }
  for (; unit < units; unit += blockDim.x) out[unit] = in[unit];
}

struct alignas(16) Pack16 {
  Word low, high;
};

// All threads of the block copy together.
__device__ inline void CopyTogether(char* to, const char* from, Word bytes) {
  const Word addresses = reinterpret_cast<Word>(to) | reinterpret_cast<Word>(from);
  if (addresses % kPack == 0) {
    const Word packed = bytes / kPack * kPack;
    CopyUnits<Pack16>(to, from, packed);
    for (Word at = packed + threadIdx.x; at < bytes; at += blockDim.x) to[at] = from[at];
  } else if ((addresses | bytes) % 4 == 0) {
    CopyUnits<unsigned int>(to, from, bytes);
  } else {
    CopyUnits<unsigned char>(to, from, bytes);
  }
}

// All threads of the block write zeros together.
__device__ inline void ClearTogether(char* to, Word bytes) {
  const Word packed = reinterpret_cast<Word>(to) % kPack == 0 ? bytes / kPack : 0;
  for (Word pack = threadIdx.x; pack < packed; pack += blockDim.x) reinterpret_cast<Pack16*>(to)[pack] = {0, 0};
  for (Word at = packed * kPack + threadIdx.x; at < bytes; at += blockDim.x) to[at] = 0;
}

// Bytes of a message.
struct Range {
  Word begin;
  Word end;
};

// The bytes of the messages that this lane moves. With two shots, member j reduces bytes [j * share, (j + 1) * share).
class LaneShare {
 public:
  __device__ explicit LaneShare(const CollectiveArguments& arguments)
      : total_(arguments.total),
        slot_bytes_(arguments.lanes.slot_bytes),
        share_(arguments.shape == kTwoShot ? PadToPack((total_ + arguments.members - 1) / arguments.members) : total_),
        step_(arguments.shape == kTwoShot ? share_ : 0) {
    const Word of_lane = PadToPack((share_ + gridDim.x - 1) / gridDim.x);
    begin_ = blockIdx.x * of_lane;
    end_ = Minimum(begin_ + of_lane, share_);
  }

  __device__ Word begin() const { return begin_; }
  __device__ Word end() const { return end_; }
  // A chunk of a slot's size, of what goes to or comes from a member.
  __device__ Range ChunkAt(Word begin, int member) const {
    const Word offset = member * step_;
    const Word end = Minimum(begin + slot_bytes_, end_);
    return {Minimum(offset + begin, total_), Minimum(offset + end, total_)};
  }

 private:
  const Word total_;
  const Word slot_bytes_;
  const Word share_;
  const Word step_;  // between members
  Word begin_;
  Word end_;
};

// A piece of one part that lies in a range of a message.
struct Piece {
  const char* source;
  char* dest;
  Word offset;  // in the range
  Word bytes;   // 0: there is none
};

// Walks the pieces of the message from or to a member.
class Pieces {
 public:
  __device__ Pieces(const CollectiveArguments& arguments, int member, Range range)
      : arguments_(arguments),
        begin_(range.begin),
        end_(range.end),
        member_(arguments.part_of_member ? 0 : member),
        part_(arguments.part_of_member ? member : 0),
        last_(arguments.part_of_member ? member + 1 : arguments.parts) {}

  __device__ Piece Next() {
    while (part_ < last_ && offset_ < end_) {
      const CollectivePart& part = arguments_.part[part_++];
      const Word offset = offset_;
      offset_ += PadToPack(part.bytes);
      const Word from = Maximum(begin_, offset);
      const Word to = Minimum(end_, offset + part.bytes);
      if (from >= to) continue;
      const Word in_part = from - offset;
      const Word of_member = part.bytes * member_;
      return {part.source + in_part + (arguments_.source_has_parts ? of_member : 0),
              part.dest + in_part + (arguments_.dest_has_parts ? of_member : 0), from - begin_, to - from};
    }
    return {nullptr, nullptr, 0, 0};
  }

 private:
  const CollectiveArguments& arguments_;
  const Word begin_;
  const Word end_;
  const Word member_;
  int part_;
  const int last_;
  Word offset_ = 0;  // of part_ in the message
};

// This block's ends of its pairs. All threads of the block call every method together.
class Lane {
 public:
  // `messages`: shared by the block, the word of the last message to each member.
  __device__ Lane(const ExchangeArguments& arguments, Word* messages) : arguments_(arguments), messages_(messages) {}

  __device__ void Begin() {
    const LaneSet& lanes = arguments_.lanes;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      StoreRelease(lanes.progress + kOperation, arguments_.operation);
      if (lanes.ticket != 0) StoreRelease(lanes.progress + kReached, lanes.ticket);
      StoreRelease(lanes.progress + kBegun, *lanes.launches + 1);
    }
    ForPeers([&](int member) { messages_[member] = *Sent(member); });
    __syncthreads();
  }

  // Waits until the peers have emptied the slots of the next message, and seen their words.
  __device__ void AwaitSlots() {
    ForPeers([&](int member) { Await(member); });
    __syncthreads();
  }

  // The message is in the slots of the peers: tells them.
  __device__ void Post() {
    __syncthreads();
    ForPeers([&](int member) { PostTo(member); });
  }

  // Waits for the message that the peers post as this PE posts its own.
  __device__ void AwaitArrivals() {
    ForPeers([&](int member) {
      if (Receives(member)) Await(member);
    });
    __syncthreads();
  }

  __device__ void End() {
    const LaneSet& lanes = arguments_.lanes;
    ForPeers([&](int member) { *Sent(member) = messages_[member]; });
    __syncthreads();
    if (threadIdx.x != 0) return;
    Word* const ended_blocks = lanes.launches + 8;
    if (CountBlock(ended_blocks) != gridDim.x - 1) return;
    *ended_blocks = 0;
    if (lanes.ends) {
      Word* const operations = lanes.launches + 16;
      *operations += 1;
      StoreRelease(lanes.progress + kCount, *operations);
      if (lanes.ticket != 0) StoreRelease(lanes.progress + kFinished, lanes.ticket);
    }
    const Word launches = *lanes.launches + 1;
    StoreRelease(lanes.progress + kEnded, launches);
    StoreRelease(lanes.launches, launches);
  }

  // Peers are divided among the threads. A thread may call the two methods below for its own.
  template <typename Body>
  __device__ void ForPeers(Body body) const {
    for (int member = threadIdx.x; member < arguments_.members; member += blockDim.x) {
      if (member != arguments_.me) body(member);
    }
  }
  __device__ void PostTo(int member) const {
    messages_[member] = TaggedWord(arguments_.tag, messages_[member] + 1);
    StoreRelease(ArrivedAt(member), messages_[member]);
  }
  // Waits for the peer's message of the number and the collective of this PE's last one.
  __device__ void Await(int member) const {
    const Word expected = messages_[member];
    const int pe = arguments_.pes[member];
    const Word* const word = Arrived(arguments_.arenas[arguments_.me], pe, expected);
    constexpr unsigned kLooks = 256;  // the orders of the watchdog are far away
    for (unsigned looks = 1;; ++looks) {
      const Word seen = LoadAcquire(word);
      if (seen == expected) return;
      if (NumberOfWord(seen) == NumberOfWord(expected)) RefuseOther(pe, TagOfWord(expected), TagOfWord(seen));
      if (looks % kLooks != 0) continue;
      Word* const progress = arguments_.lanes.progress;
      const Word order = LoadAcquire(progress + kOrder);
      if (order != 0) StoreRelease(progress + PlaceOf(kLate, pe), 1);
      if (order == kOrderTrap) Trap();
      Pause();
    }
  }

  // Says why the kernel cannot go on. The watchdog tells the user, and then orders the trap.
  __device__ void Refuse(Fault fault, int pe) const {
    Word* const progress = arguments_.lanes.progress;
    StoreRelease(progress + kOperation, arguments_.operation);
    StoreRelease(progress + kFaultPe, pe);
    StoreRelease(progress + kFault, fault);
    while (LoadAcquire(progress + kOrder) != kOrderTrap) Pause();
    Trap();
  }

  __device__ bool Sends(int member) const { return Takes(arguments_.send_to, member); }
  __device__ bool Receives(int member) const { return Takes(arguments_.receive_from, member); }

  // Where the next message to a member goes; where its message that was awaited last is.
  __device__ char* SlotAt(int member) const {
    return Slot(arguments_.arenas[member], arguments_.pes[member], arguments_.lanes.pe, messages_[member] + 1);
  }
  __device__ char* OwnSlot(int member) const {
    return Slot(arguments_.arenas[arguments_.me], arguments_.lanes.pe, arguments_.pes[member], messages_[member]);
  }

 private:
  __device__ bool Takes(int which, int member) const { return which == kAllMembers || which == member; }

  __device__ Word Row(int pe) const { return (Word{blockIdx.x} * arguments_.lanes.n_pes + pe) * sizeof(Word); }
  __device__ Word* Sent(int member) const {
    return reinterpret_cast<Word*>(arguments_.arenas[arguments_.me] + arguments_.lanes.sent +
                                   Row(arguments_.pes[member]));
  }
  // The word of a message's slot in the arena of its receiver.
  __device__ Word* Arrived(char* arena, int sender, Word message) const {
    return reinterpret_cast<Word*>(arena + arguments_.lanes.arrived + 2 * Row(sender)) + message % 2;
  }
  __device__ Word* ArrivedAt(int member) const {
    return Arrived(arguments_.arenas[member], arguments_.lanes.pe, messages_[member]);
  }

  // A PE does not send to itself, so it has slots for n - 1 senders.
  __device__ char* Slot(char* arena, int owner, int sender, Word message) const {
    const LaneSet& lanes = arguments_.lanes;
    const Word index = Word{blockIdx.x} * (lanes.n_pes - 1) + (sender < owner ? sender : sender - 1);
    return arena + lanes.slots + (index * 2 + message % 2) * lanes.slot_bytes;
  }

  __device__ void RefuseOther(int pe, unsigned expected, unsigned seen) const {
    StoreRelease(arguments_.lanes.progress + PlaceOf(kOtherTag, pe), TaggedWord(expected, seen));
    Refuse(kOtherCollective, pe);
  }

  const ExchangeArguments& arguments_;
  Word* const messages_;
};

// The copies of a chunk, in this order.
enum Step : int {
  kSend,   // the message for each peer into its slot
  kShare,  // bytes of the results into the slots of all peers
  kTake,   // what has arrived from the peers to the results
  kOwn,    // this PE's message to itself to the results
};

// `range_of(member)`: the bytes of the chunk that go to or come from a member. Peers are taken from behind this PE on,
// so that not all PEs write to the same one.
template <typename RangeOf>
__device__ inline void CopyStep(const CollectiveArguments& arguments, const Lane& lane, Step step, RangeOf range_of) {
  for (int behind = 0; behind < arguments.members; ++behind) {
    const int member = (arguments.me + behind) % arguments.members;
    const bool own = member == arguments.me;
    if (own != (step == kOwn)) continue;
    if (step == kSend && !lane.Sends(member)) continue;
    if (step == kTake && !lane.Receives(member)) continue;
    const int of = step == kShare ? arguments.me : member;
    Pieces pieces(arguments, of, range_of(of));
    for (Piece piece = pieces.Next(); piece.bytes != 0; piece = pieces.Next()) {
      char* const place =
          own ? piece.dest : (step == kTake ? lane.OwnSlot(member) : lane.SlotAt(member)) + piece.offset;
      char* const to = step == kTake ? piece.dest : place;
      const char* const from = step == kTake ? place : step == kShare ? piece.dest : piece.source;
      if (to != from) CopyTogether(to, from, piece.bytes);
    }
  }
}

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_EXCHANGE_CUH_
