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

struct alignas(16) Pack16 {
  Word low, high;
};

// Threads of a block that copy together: whole warps, all of them or those for one of several peers.
struct Team {
  unsigned rank;
  unsigned size;
};
__device__ inline Team WholeBlock() { return {threadIdx.x, blockDim.x}; }

// Copies units to the same offset of several places, and loads each once. With kOne there is one place, `to`.
template <typename Unit, bool kOne>
__device__ inline void CopyUnits(char* to, char* const* places, int count, const char* from, unsigned begin,
                                 unsigned end, Team team) {
  constexpr int kUnroll = 4;
  const unsigned step = team.size * sizeof(Unit);
  const auto store = [&](char* place, unsigned at, const Unit& unit) { *reinterpret_cast<Unit*>(place + at) = unit; };
  const auto load = [&](unsigned at) { return *reinterpret_cast<const Unit*>(from + at); };
  unsigned at = begin + team.rank * sizeof(Unit);
  XLA_SHMEM_NO_UNROLL
  for (; at + (kUnroll - 1) * step < end; at += kUnroll * step) {
    Unit loaded[kUnroll];
    XLA_SHMEM_UNROLL
    for (int i = 0; i < kUnroll; ++i) loaded[i] = load(at + i * step);
    XLA_SHMEM_NO_UNROLL
    for (int place = 0; place < (kOne ? 1 : count); ++place) {
      char* const dest = kOne ? to : places[place] + reinterpret_cast<Word>(to);
      XLA_SHMEM_UNROLL
      for (int i = 0; i < kUnroll; ++i) store(dest, at + i * step, loaded[i]);
    }
  }
  XLA_SHMEM_NO_UNROLL
  for (; at < end; at += step) {
    const Unit loaded = load(at);
    XLA_SHMEM_NO_UNROLL
    for (int place = 0; place < (kOne ? 1 : count); ++place) {
      store(kOne ? to : places[place] + reinterpret_cast<Word>(to), at, loaded);
    }
  }
}

template <bool kOne>
__device__ inline void CopyAligned(char* to, char* const* places, int count, const char* from, unsigned bytes,
                                   Team team) {
  const Word addresses = reinterpret_cast<Word>(to) | reinterpret_cast<Word>(from);
  if (addresses % kPack == 0) {
    const unsigned packed = bytes / kPack * kPack;
    CopyUnits<Pack16, kOne>(to, places, count, from, 0, packed, team);
    CopyUnits<unsigned char, kOne>(to, places, count, from, packed, bytes, team);
  } else if ((addresses | bytes) % 4 == 0) {
    CopyUnits<unsigned int, kOne>(to, places, count, from, 0, bytes, team);
  } else {
    CopyUnits<unsigned char, kOne>(to, places, count, from, 0, bytes, team);
  }
}

// A team copies together, at most what a slot holds.
XLA_SHMEM_CALLED void CopyTogether(char* to, const char* from, unsigned bytes, Team team) {
  CopyAligned</*kOne=*/true>(to, nullptr, 1, from, bytes, team);
}

// All threads of the block copy together to the same offset of places at multiples of 16 bytes.
XLA_SHMEM_CALLED void CopyToPlaces(char* const* places, int count, Word offset, const char* from, unsigned bytes) {
  CopyAligned</*kOne=*/false>(reinterpret_cast<char*>(offset), places, count, from, bytes, WholeBlock());
}

// All threads of the block write zeros together.
XLA_SHMEM_CALLED void ClearTogether(char* to, Word bytes) {
  const Word packed = reinterpret_cast<Word>(to) % kPack == 0 ? bytes / kPack : 0;
  for (Word pack = threadIdx.x; pack < packed; pack += blockDim.x) reinterpret_cast<Pack16*>(to)[pack] = {0, 0};
  for (Word at = packed * kPack + threadIdx.x; at < bytes; at += blockDim.x) to[at] = 0;
}

// Bytes of a message.
struct Range {
  Word begin;
  Word end;
};

// The bytes of the messages that this lane moves. With two shots, member j reduces bytes [j * step, (j + 1) * step). In
// memory of the block, because it would take registers.
struct LaneShare {
  Word total;
  Word step;  // between members
  Word slot_bytes;
  Word begin;
  Word end;

  __device__ void Set(const CollectiveArguments& arguments) {
    const bool two_shot = arguments.shape == kTwoShot;
    total = arguments.total;
    slot_bytes = arguments.lanes.slot_bytes;
    const Word share = two_shot ? PadToPack((total + arguments.members - 1) / arguments.members) : total;
    step = two_shot ? share : 0;
    const Word of_lane = PadToPack((share + gridDim.x - 1) / gridDim.x);
    begin = blockIdx.x * of_lane;
    end = Minimum(begin + of_lane, share);
  }

  // A chunk of a slot's size, of what goes to or comes from a member.
  __device__ Range ChunkAt(Word at, int member) const {
    const Word offset = member * step;
    return {Minimum(offset + at, total), Minimum(offset + Minimum(at + slot_bytes, end), total)};
  }
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

  // The host reads the words of progress but no data by them, so their stores need no fence.
  __device__ void Begin() {
    const LaneSet& lanes = arguments_.lanes;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      const Word ticket = lanes.ticket != 0 ? lanes.ticket : NumberOfWord(lanes.launches[16]);
      StorePairRelaxed(lanes.progress + kBegun, *lanes.launches + 1, TaggedWord(ticket, arguments_.operation));
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
    // The next kernel sees these words because it begins behind this one.
    *ended_blocks = 0;
    Word* const finished = lanes.launches + 16;
    if (lanes.ends) {
      *finished = TaggedWord(TagOfWord(*finished) + 1, lanes.ticket != 0 ? lanes.ticket : NumberOfWord(*finished));
    }
    *lanes.launches += 1;
    StorePairRelaxed(lanes.progress + kEnded, *lanes.launches, *finished);
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
      const Word seen = LoadRelaxed(word);
      // The word stays until this PE has sent its next message.
      if (seen == expected && LoadAcquire(word) == expected) return;
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

  __device__ bool Receives(int member) const {
    return arguments_.receive_from == kAllMembers || arguments_.receive_from == member;
  }

  // Where the next message to a member goes; where its message that was awaited last is.
  __device__ char* SlotAt(int member) const {
    return Slot(arguments_.arenas[member], arguments_.pes[member], arguments_.lanes.pe, messages_[member] + 1);
  }
  __device__ char* OwnSlot(int member) const {
    return Slot(arguments_.arenas[arguments_.me], arguments_.lanes.pe, arguments_.pes[member], messages_[member]);
  }

 private:
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

// The peers that a copy goes to or comes from, beginning behind this PE, so that not all PEs write to the same one.
class Peers {
 public:
  // `which`: of ExchangeArguments::send_to.
  __device__ Peers(const ExchangeArguments& arguments, int which)
      : arguments_(arguments),
        only_(which),
        count_(which == kAllMembers                  ? arguments.members - 1
               : which >= 0 && which != arguments.me ? 1
                                                     : 0) {}

  __device__ int count() const { return count_; }
  __device__ int operator[](int i) const {
    if (only_ != kAllMembers) return only_;
    const int member = arguments_.me + 1 + i;
    return member < arguments_.members ? member : member - arguments_.members;
  }

  // Divides the peers among teams of warps, or among the only team of a small block.
  template <typename Body>
  __device__ void Divide(Body body) const {
    constexpr unsigned kWarp = 32;
    const unsigned warps = blockDim.x / kWarp;
    if (count_ == 0) return;
    const unsigned teams = Minimum(Maximum(warps, 1), count_);
    const unsigned size = warps == 0 ? blockDim.x : warps / teams * kWarp;
    const unsigned team = threadIdx.x / size;
    if (team >= teams) return;
    for (int i = team; i < count_; i += teams) body((*this)[i], Team{threadIdx.x - team * size, size});
  }

 private:
  const ExchangeArguments& arguments_;
  const int only_;
  const int count_;
};

// `range_of(member)`, below: the bytes of the chunk that go to or come from a member.

// Copies the pieces of a chunk to the slots of all peers: of the results, or of operands. `places`: shared by the
// block, an element for each member.
template <bool kResults>
__device__ inline void CopyToAll(const CollectiveArguments& arguments, const Lane& lane, const Peers& peers,
                                 Range range, char** places) {
  for (int i = threadIdx.x; i < peers.count(); i += blockDim.x) places[i] = lane.SlotAt(peers[i]);
  __syncthreads();
  Pieces pieces(arguments, arguments.me, range);
  for (Piece piece = pieces.Next(); piece.bytes != 0; piece = pieces.Next()) {
    CopyToPlaces(places, peers.count(), piece.offset, kResults ? piece.dest : piece.source, piece.bytes);
  }
}

// The message for each peer into its slot.
template <typename RangeOf>
__device__ inline void Send(const CollectiveArguments& arguments, const Lane& lane, RangeOf range_of, char** places) {
  const Peers peers(arguments, arguments.send_to);
  if (arguments.shape != kTwoShot && !arguments.source_has_parts && !arguments.part_of_member) {
    return CopyToAll</*kResults=*/false>(arguments, lane, peers, range_of(arguments.me), places);
  }
  peers.Divide([&](int member, Team team) {
    Pieces pieces(arguments, member, range_of(member));
    for (Piece piece = pieces.Next(); piece.bytes != 0; piece = pieces.Next()) {
      CopyTogether(lane.SlotAt(member) + piece.offset, piece.source, piece.bytes, team);
    }
  });
}

// What has arrived from the peers to the results.
template <typename RangeOf>
__device__ inline void Take(const CollectiveArguments& arguments, const Lane& lane, RangeOf range_of) {
  Peers(arguments, arguments.receive_from).Divide([&](int member, Team team) {
    Pieces pieces(arguments, member, range_of(member));
    for (Piece piece = pieces.Next(); piece.bytes != 0; piece = pieces.Next()) {
      CopyTogether(piece.dest, lane.OwnSlot(member) + piece.offset, piece.bytes, team);
    }
  });
}

// This PE's message to itself to the results, or zeros.
template <bool kClears>
__device__ inline void SetOwn(const CollectiveArguments& arguments, Range range) {
  Pieces pieces(arguments, arguments.me, range);
  for (Piece piece = pieces.Next(); piece.bytes != 0; piece = pieces.Next()) {
    if (kClears) {
      ClearTogether(piece.dest, piece.bytes);
    } else if (piece.dest != piece.source) {
      CopyTogether(piece.dest, piece.source, piece.bytes, WholeBlock());
    }
  }
}

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_EXCHANGE_CUH_
