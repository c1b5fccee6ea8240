// The symmetric arena of a PE: lanes for the collectives of groups, slots for split permutes, then rings for large
// ones. Offsets follow from the number of PEs and the bytes alone.
#ifndef XLA_SHMEM_THUNKS_GPU_ARENA_LAYOUT_H_
#define XLA_SHMEM_THUNKS_GPU_ARENA_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

enum class LaneUse {
  kOverlapping,  // starts, on a stream of this package
  kInLine,       // whole operations on XLA's stream, and CUDA graphs
};

// The largest message that goes in packets, which save a fence and carry each byte twice. Over PCIe, measured on an
// H200 on 2026-11-28: a message of 1 KiB and its answer take 2.7 us in packets and 3.2 with a fence, of 4 KiB 4.2 and
// 3.3, so they are equal at 2 KiB. Over NVLink an estimate: a fence and the look behind it are about 1 us, in which
// NVLink 4 moves the second half of 64 KiB to seven peers.
inline constexpr size_t kPacketBytesOverPcie = 2 << 10;
inline constexpr size_t kPacketBytesOverNvlink = 64 << 10;

// Where the lanes of the kernels lie (nvshmem/gpu/kernels/exchange.cuh). There are two sets of them, one for each
// stream that runs collectives.
class LaneLayout {
 public:
  // So many that two sets of lanes and as much again fit on so many multiprocessors, a block on each: all blocks of a
  // kernel must run at once, because they wait for those of other PEs.
  static int MostLanes(int multiprocessors);
  static constexpr int kMaxLanes = 32;

  // Uses at most `bytes` and `most_lanes`. Error if that is too little. `multimem`: with staging memory for reductions
  // in the switch. `packet_bytes`: a limit of messages in packets. All arguments are the same on all PEs.
  static Result<LaneLayout> Create(int n_pes, size_t bytes, bool multimem = false, int most_lanes = kMaxLanes,
                                   size_t packet_bytes = kPacketBytesOverNvlink);
  static size_t RecommendedBytes(int n_pes, bool multimem = false);

  int n_pes() const { return n_pes_; }
  int lanes() const { return lanes_; }
  bool has_staging() const { return multimem_; }
  size_t slot_bytes() const { return slot_bytes_; }
  // Of the slots that all senders share, for messages to one PE; 0 if those of a pair are as large.
  size_t shared_slot_bytes() const;
  // Of a member's part of a place of the staging memory, which is as large as a slot for each PE.
  size_t staged_bytes() const { return slot_bytes_ / kLaneSlots; }
  // Of a message, at most, that goes in packets through one lane. 0: none does.
  size_t packet_share() const { return packet_share_; }
  // Of a slot for it.
  size_t packet_slot_bytes() const;
  size_t bytes() const { return 2 * set_bytes(); }

  // Offsets.
  size_t Launches(LaneUse use) const { return Set(use); }
  size_t Arrived(LaneUse use) const { return Set(use) + kStateBytes; }
  size_t Sent(LaneUse use) const { return Arrived(use) + kLaneSlots * row_bytes(); }
  size_t PacketsSent(LaneUse use) const { return Sent(use) + row_bytes(); }
  size_t Slots(LaneUse use) const { return PacketsSent(use) + row_bytes(); }
  size_t SharedSlots(LaneUse use) const { return Slots(use) + slots_bytes(); }
  size_t Staging(LaneUse use) const { return SharedSlots(use) + shared_slots_bytes(); }
  size_t Packets(LaneUse use) const { return Staging(use) + staging_bytes(); }

 private:
  static constexpr size_t kStateBytes = 256;
  // With the slots that are recommended, and no packets.
  LaneLayout(int n_pes, bool multimem, int lanes);
  // Of one word for each lane and PE.
  size_t row_bytes() const;
  size_t slots_bytes() const;  // of all lanes, as the following
  size_t shared_slots_bytes() const { return shared_slot_bytes() * kLaneSlots * lanes_; }
  size_t packets_bytes() const;
  size_t staging_bytes() const;
  // The largest share that takes a part of `bytes` only.
  void SetPackets(size_t limit, size_t bytes);
  size_t set_bytes() const;
  size_t Set(LaneUse use) const { return use == LaneUse::kInLine ? set_bytes() : 0; }

  int n_pes_;
  int lanes_;
  bool multimem_;
  size_t slot_bytes_;
  size_t packet_share_ = 0;
};

// Where the rings and words of every two PEs lie (pair_rings.h).
class PairLayout {
 public:
  // Divides `arena_bytes` of every PE among its peers. Error if that is too little.
  static Result<PairLayout> Create(int n_pes, size_t arena_bytes);

  int n_pes() const { return n_pes_; }
  size_t slot_bytes() const { return slot_bytes_; }
  // Of a ring: an even number, at least four.
  uint32_t num_slots() const { return num_slots_; }

  // Offsets in the arena of PE `me`, for the pair (me, peer).
  // The words of slots follow one another.
  size_t Arrived(int peer, uint64_t message) const { return WordOffset(peer, 0, message % num_slots_); }
  size_t Credit(int peer) const { return WordOffset(peer, 1, 0); }
  // Memory at `me` that `peer` puts into.
  size_t Slot(int me, int peer, uint64_t message) const;

  // Bytes for a few slots a peer. Less memory makes smaller slots; more is used up to kMaxSlots slots.
  static size_t RecommendedBytes(int n_pes);

 private:
  // Words with one writer and one reader share a cache line (128 bytes on GPUs).
  static constexpr size_t kLine = 128;
  static constexpr size_t kLinesPerPeer = 2;
  size_t WordOffset(int peer, size_t line, size_t word) const {
    return (peer * kLinesPerPeer + line) * kLine + word * sizeof(uint64_t);
  }
  size_t PeerRegion(int me, int peer) const;

  int n_pes_ = 0;
  size_t slot_bytes_ = 0;
  uint32_t num_slots_ = 0;
};

// Where the slots and words of split permutes lie (split_permutes.h): some slots for each sender, each with a word for
// each of its blocks at both ends.
class SplitLayout {
 public:
  // Streams of XLA that may run the kernels at one time.
  static constexpr int kStreams = 4;
  // The largest message: what NVLink 4 moves in 3 us. XLA's stream sends it, so it must be small.
  static constexpr size_t kMaxBytes = 1350000;

  // Uses at most `bytes`. If they are too few there are no slots.
  static SplitLayout Create(int n_pes, size_t bytes, int lanes);
  static size_t RecommendedBytes(int n_pes);

  int n_pes() const { return n_pes_; }
  int lanes() const { return lanes_; }
  size_t slot_bytes() const { return slot_bytes_; }  // 0: no slots
  uint32_t num_slots() const { return num_slots_; }
  size_t bytes() const { return Slot(0, n_pes_, 0); }

  // Offsets. Device memory for LaneSet::launches.
  static size_t Launches(int stream) { return stream * kStateBytes; }
  // The words of a slot, one for each block: at the receiver, and at the sender.
  size_t Arrived(int sender, uint64_t message) const { return Words(sender, message); }
  size_t Consumed(int receiver, uint64_t message) const { return Words(n_pes_ + receiver, message); }
  // At `me`; message m uses slot m mod num_slots().
  size_t Slot(int me, int sender, uint64_t message) const;

 private:
  static constexpr size_t kStateBytes = 256;
  SplitLayout(int n_pes, int lanes);
  size_t Words(int row, uint64_t message) const;

  int n_pes_;
  int lanes_;
  uint32_t num_slots_;
  size_t slot_bytes_;
};

struct ArenaLayout {
  LaneLayout lanes;  // from the start of the arena
  SplitLayout splits;
  PairLayout pairs;
  size_t splits_offset = 0;
  size_t pairs_offset = 0;

  // Error if `bytes` are too little. `multimem`, `most_lanes`, `packet_bytes`: as of LaneLayout.
  static Result<ArenaLayout> Create(int n_pes, size_t bytes, bool multimem = false,
                                    int most_lanes = LaneLayout::kMaxLanes,
                                    size_t packet_bytes = kPacketBytesOverNvlink);
  static size_t RecommendedBytes(int n_pes, bool multimem = false);
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_ARENA_LAYOUT_H_
