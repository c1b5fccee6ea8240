#include "xla_patch/thunks/gpu/lane_layout.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace xla_shmem::gpu {
namespace {

// First guesses, to be tuned on a GPU, as are 32 lanes: NCCL uses up to 32 blocks on an H100 too. A lane sends so much
// to its peers together in one message, and has two messages on their way.
constexpr size_t kBytesOfMessages = 256 << 10;
constexpr size_t kMaxLaneSlotBytes = 64 << 10;
constexpr size_t kRecommendedMinSlotBytes = 8 << 10;
constexpr size_t kMinLaneSlotBytes = 512;
constexpr size_t kSlotUnit = 256;
// Slots of packets get an eighth of the lanes' memory, and no more than the limits of eight PEs take.
constexpr size_t kPartOfPackets = 8;
constexpr size_t kMaxPacketBytes = 4 << 20;

size_t PeersOf(int n_pes) { return static_cast<size_t>(std::max(n_pes - 1, 1)); }

size_t RecommendedSlotBytes(int n_pes) {
  return std::clamp(kBytesOfMessages / PeersOf(n_pes) / kSlotUnit * kSlotUnit, kRecommendedMinSlotBytes,
                    kMaxLaneSlotBytes);
}

}  // namespace

size_t LaneLayout::row_bytes() const {
  constexpr size_t kLine = 128;
  return (sizeof(uint64_t) * lanes_ * n_pes_ + kLine - 1) / kLine * kLine;
}

size_t LaneLayout::set_bytes() const {
  const size_t bytes = kStateBytes + (kLaneSlots + 2) * row_bytes() + slots_bytes() + staging_bytes() + packets_bytes();
  return (bytes + kSlotUnit - 1) / kSlotUnit * kSlotUnit;
}

size_t LaneLayout::slots_bytes() const { return PeersOf(n_pes_) * kLaneSlots * lanes_ * slot_bytes_; }

size_t LaneLayout::packet_slot_bytes() const {
  return packet_share_ == 0 ? 0 : kPacketHeadBytes + kPacketExpansion * packet_share_;
}

size_t LaneLayout::packets_bytes() const { return PeersOf(n_pes_) * kPacketSlots * lanes_ * packet_slot_bytes(); }

void LaneLayout::SetPackets(size_t limit, size_t bytes) {
  const size_t slots = PeersOf(n_pes_) * 2 * kPacketSlots * lanes_;  // of both sets
  const size_t slot = std::min(bytes / kPartOfPackets, kMaxPacketBytes) / slots;
  const size_t fits = slot < kPacketHeadBytes ? 0 : (slot - kPacketHeadBytes) / kPacketExpansion;
  packet_share_ = std::min(limit / lanes_, fits) / kPackBytes * kPackBytes;
}

size_t LaneLayout::staging_bytes() const { return multimem_ ? slot_bytes_ * lanes_ * n_pes_ : 0; }

int LaneLayout::MostLanes(int multiprocessors) { return std::clamp(multiprocessors / 4, 1, kMaxLanes); }

Result<LaneLayout> LaneLayout::Create(int n_pes, size_t bytes, bool multimem, int most_lanes, size_t packet_bytes) {
  LaneLayout layout;
  layout.n_pes_ = n_pes;
  layout.multimem_ = multimem;
  layout.slot_bytes_ = RecommendedSlotBytes(n_pes);
  layout.lanes_ = most_lanes;
  layout.SetPackets(packet_bytes, bytes);
  while (layout.bytes() > bytes && layout.slot_bytes_ > kMinLaneSlotBytes) layout.slot_bytes_ -= kSlotUnit;
  while (layout.bytes() > bytes && layout.lanes_ > 1) --layout.lanes_;
  if (layout.bytes() > bytes) {
    return Status::Error(std::to_string(bytes) + " bytes are too little for the collectives of " +
                         std::to_string(n_pes) + " PEs, which need " + std::to_string(layout.bytes()) +
                         " at least: raise XLA_SHMEM_HEAP_SIZE");
  }
  return layout;
}

size_t LaneLayout::RecommendedBytes(int n_pes, bool multimem) {
  LaneLayout layout;
  layout.n_pes_ = n_pes;
  layout.multimem_ = multimem;
  layout.slot_bytes_ = RecommendedSlotBytes(n_pes);
  layout.lanes_ = kMaxLanes;
  layout.SetPackets(kPacketBytesOverNvlink, kPartOfPackets * kMaxPacketBytes);
  return layout.bytes();
}

}  // namespace xla_shmem::gpu
