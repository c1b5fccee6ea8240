// Small messages as packets (docs/protocol.md, "Packets").
//
// A store of 8 bytes arrives whole, so a receiver that sees the number has the bytes: no fence, no word behind them,
// and no order among packets. They travel in pairs. The PTX ISA ("Memory Consistency Model", vector data-types) takes a
// vector for stores of its elements in any order, so each element of a pair has a number of its own. 16 bytes with one
// number would be torn. What is in a slot is older than the message that is awaited, so its numbers are smaller.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_PACKETS_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_PACKETS_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/copies.cuh"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/nvshmem/gpu/kernels/messages.cuh"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"

namespace xla_shmem::gpu {

// Messages in packets, one each way in a kernel. `messages` holds numbers with the tag, or, between kernels, with no
// tag if the peer's message of that number has come: a tag is never 0.
class PacketLane : public LaneBase {
 public:
  __device__ PacketLane(const ExchangeArguments& arguments, Word* messages)
      : LaneBase(arguments, messages, arguments.lanes.packets_sent) {}

  // Waits until the peers have taken what the slots of the next message hold, and sends its head.
  __device__ void BeginMessages() {
    ForPeers([&](int member) {
      if (TagOfWord(messages_[member]) != 0) AwaitHead(member);
      messages_[member] = TaggedWord(arguments_.tag, messages_[member] + 1);
      Word* const slot = SlotAt(member);
      if (NumberOfWord(messages_[member]) % kRenewedEvery < 2) Renew(slot, messages_[member] - 2);
      StorePairRelaxed(slot, messages_[member], messages_[member]);
    });
    __syncthreads();
  }

  // A team sends a part of the message to a member, which begins at `offset` of this lane's share.
  __device__ void Send(int member, Word offset, const char* from, unsigned bytes, Team team) const {
    const Word number = NumberOfWord(messages_[member]);
    Word* const packets = SlotAt(member) + PlaceOfPacket(offset);
    XLA_SHMEM_NO_UNROLL
    for (unsigned at = team.rank * kPacketUnit; at < bytes; at += team.size * kPacketUnit) {
      const Word unit = LoadBytes(from + at, bytes - at);
      StorePairRelaxed(packets + PlaceOfUnit(at), TaggedWord(unit, number), TaggedWord(unit >> 32, number));
    }
  }

  // A team takes a part of the message from a member.
  __device__ void Take(int member, Word offset, char* to, unsigned bytes, Team team) const {
    constexpr unsigned kAtOnce = 4;
    const Word* const packets = OwnSlot(member) + PlaceOfPacket(offset);
    const unsigned step = team.size * kPacketUnit;
    XLA_SHMEM_NO_UNROLL
    for (unsigned first = team.rank * kPacketUnit; first < bytes; first += kAtOnce * step) {
      WordPair seen[kAtOnce];
      XLA_SHMEM_UNROLL
      for (unsigned i = 0; i < kAtOnce; ++i) {
        if (first + i * step < bytes) seen[i] = LoadPairRelaxed(packets + PlaceOfUnit(first + i * step));
      }
      AwaitHead(member);
      XLA_SHMEM_UNROLL
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const unsigned at = first + i * step;
        if (at < bytes) StoreBytes(to + at, Settle(member, packets + PlaceOfUnit(at), seen[i]), bytes - at);
      }
    }
  }

  // All messages from peers have come, as far as this PE receives any. Those of the others are awaited before the next
  // message.
  __device__ void EndMessages() {
    __syncthreads();  // until here other threads look at the words
    ForPeers([&](int member) {
      if (!Receives(member)) return;
      AwaitHead(member);
      messages_[member] = NumberOfWord(messages_[member]);
    });
  }

 private:
  static constexpr Word kRenewedEvery = Word{1} << 31;

  // In words, behind the head.
  __device__ static unsigned PlaceOfUnit(unsigned bytes) { return bytes / kPacketUnit * 2; }
  __device__ static Word PlaceOfPacket(Word offset) { return 2 + offset / kPacketUnit * 2; }

  __device__ Word* SlotAt(int member) const {
    return PacketSlot(arguments_.arenas[member], arguments_.pes[member], arguments_.lanes.pe, messages_[member]);
  }
  __device__ Word* OwnSlot(int member) const {
    return PacketSlot(own_arena(), arguments_.lanes.pe, arguments_.pes[member], messages_[member]);
  }
  __device__ void AwaitHead(int member) const {
    AwaitWord</*kPackets=*/true>(member, OwnSlot(member), messages_[member]);
  }

  // All packets of a slot get a number that has passed. Once in hours, so by one thread.
  __device__ void Renew(Word* slot, Word number) const {
    XLA_SHMEM_NO_UNROLL
    for (Word at = 0; at < arguments_.lanes.packet_slot_bytes / sizeof(Word); at += 2) {
      StorePairRelaxed(slot + at, NumberOfWord(number), NumberOfWord(number));
    }
  }

  // The unit in a pair of packets, once both have come.
  __device__ Word Settle(int member, const Word* packets, WordPair seen) const {
    const unsigned number = NumberOfWord(messages_[member]);
    for (unsigned looks = 1; NumberOfWord(seen.first) != number || NumberOfWord(seen.second) != number; ++looks) {
      Heed(looks, member);
      seen = LoadPairRelaxed(packets);
    }
    return TagOfWord(seen.first) | Word{TagOfWord(seen.second)} << 32;
  }
};

// The message for each peer, which has the same range for all.
template <typename RangeOf>
__device__ inline void SendPackets(const CollectiveArguments& arguments, const PacketLane& lane, RangeOf range_of) {
  Peers(arguments, arguments.send_to).Divide([&](int member, Team team) {
    ForPieces(arguments, member, range_of,
              [&](const Piece& piece) { lane.Send(member, piece.offset, piece.source, piece.bytes, team); });
  });
}

// Where a lane that reduces puts what comes from a peer: it has a range for each member but this PE.
__device__ inline char* Staged(const CollectiveArguments& arguments, char* staging, int member) {
  return staging + (member < arguments.me ? member : member - 1) * arguments.of_lane;
}

// What comes from the peers to the results, or to `staging`.
template <bool kReduces, typename RangeOf>
__device__ inline void TakePackets(const CollectiveArguments& arguments, const PacketLane& lane, RangeOf range_of,
                                   char* staging) {
  Peers(arguments, arguments.receive_from).Divide([&](int member, Team team) {
    ForPieces(arguments, member, range_of, [&](const Piece& piece) {
      char* const dest = kReduces ? Staged(arguments, staging, member) + piece.offset : piece.dest;
      lane.Take(member, piece.offset, dest, piece.bytes, team);
    });
  });
}

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_PACKETS_CUH_
