#include "xla_patch/thunks/gpu/arena_layout.h"

#include <algorithm>
#include <string>

#include "xla_patch/nvshmem/gpu/device.h"

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

// Chunks of large messages (collective_permute.h) would be larger, but memory counts too.
constexpr size_t kMaxSlotBytes = 4 << 20;
constexpr size_t kMinSlotBytes = 4 << 10;
constexpr uint32_t kMinSlots = 4;
constexpr uint32_t kMaxSlots = 16;
static_assert(kMaxSlots <= Device::kMaxReadWords);

size_t PeersOf(int n_pes) { return static_cast<size_t>(std::max(n_pes - 1, 1)); }

}  // namespace

LaneLayout::LaneLayout(int n_pes, bool multimem, int lanes)
    : n_pes_(n_pes),
      lanes_(lanes),
      multimem_(multimem),
      slot_bytes_(std::clamp(kBytesOfMessages / PeersOf(n_pes) / kSlotUnit * kSlotUnit, kRecommendedMinSlotBytes,
                             kMaxLaneSlotBytes)) {}

size_t LaneLayout::row_bytes() const {
  constexpr size_t kLine = 128;
  return (sizeof(uint64_t) * lanes_ * n_pes_ + kLine - 1) / kLine * kLine;
}

size_t LaneLayout::set_bytes() const {
  const size_t bytes = kStateBytes + (kLaneSlots + 2) * row_bytes() + slots_bytes() + shared_slots_bytes() +
                       staging_bytes() + packets_bytes();
  return (bytes + kSlotUnit - 1) / kSlotUnit * kSlotUnit;
}

size_t LaneLayout::slots_bytes() const { return PeersOf(n_pes_) * kLaneSlots * lanes_ * slot_bytes_; }

// At most half of the memory of the others.
size_t LaneLayout::shared_slot_bytes() const {
  const size_t bytes = std::min(kMaxLaneSlotBytes, PeersOf(n_pes_) * slot_bytes_ / 2 / kSlotUnit * kSlotUnit);
  return bytes > slot_bytes_ ? bytes : 0;
}

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
  LaneLayout layout(n_pes, multimem, most_lanes);
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
  LaneLayout layout(n_pes, multimem, kMaxLanes);
  layout.SetPackets(kPacketBytesOverNvlink, kPartOfPackets * kMaxPacketBytes);
  return layout.bytes();
}

Result<PairLayout> PairLayout::Create(int n_pes, size_t arena_bytes) {
  PairLayout layout;
  layout.n_pes_ = n_pes;
  const size_t peers = PeersOf(n_pes);
  static_assert(kMaxSlots * sizeof(uint64_t) <= kLine);
  const size_t words = n_pes * kLinesPerPeer * kLine;
  const size_t per_peer = arena_bytes > words ? (arena_bytes - words) / peers : 0;
  layout.slot_bytes_ = std::min(kMaxSlotBytes, per_peer / kMinSlots / kMinSlotBytes * kMinSlotBytes);
  if (layout.slot_bytes_ < kMinSlotBytes) {
    return Status::Error("a symmetric heap of " + std::to_string(arena_bytes) + " bytes is too small for " +
                         std::to_string(n_pes) + " PEs, which need " +
                         std::to_string(words + peers * kMinSlots * kMinSlotBytes) +
                         " at least: raise XLA_SHMEM_HEAP_SIZE");
  }
  const size_t slots = std::min<size_t>(kMaxSlots, per_peer / layout.slot_bytes_);
  layout.num_slots_ = static_cast<uint32_t>(slots / 2 * 2);
  return layout;
}

size_t PairLayout::RecommendedBytes(int n_pes) {
  const size_t peers = PeersOf(n_pes);
  // In jobs of more than eight PEs the memory should not grow as fast.
  const size_t slots = n_pes <= 8 ? 6 : kMinSlots;
  return n_pes * kLinesPerPeer * kLine + peers * slots * kMaxSlotBytes;
}

size_t PairLayout::PeerRegion(int me, int peer) const {
  // A PE does not put to itself, so there are n - 1 regions.
  const size_t index = peer < me ? peer : peer - 1;
  return WordOffset(n_pes_, 0, 0) + index * num_slots_ * slot_bytes_;
}

size_t PairLayout::Slot(int me, int peer, uint64_t message) const {
  return PeerRegion(me, peer) + message % num_slots_ * slot_bytes_;
}

SplitLayout::SplitLayout(int n_pes, int lanes)
    : n_pes_(n_pes), lanes_(lanes), num_slots_(n_pes <= 8 ? 4 : 2), slot_bytes_(kMaxBytes / kSlotUnit * kSlotUnit) {}

SplitLayout SplitLayout::Create(int n_pes, size_t bytes, int lanes) {
  SplitLayout layout(n_pes, lanes);
  const size_t words = layout.Words(2 * n_pes, 0);
  const size_t slots = PeersOf(n_pes) * layout.num_slots_;
  const size_t fits = bytes > words ? (bytes - words) / slots / kSlotUnit * kSlotUnit : 0;
  layout.slot_bytes_ = std::min(layout.slot_bytes_, fits);
  return layout;
}

size_t SplitLayout::RecommendedBytes(int n_pes) { return SplitLayout(n_pes, LaneLayout::kMaxLanes).bytes(); }

size_t SplitLayout::Words(int row, uint64_t message) const {
  constexpr size_t kLine = 128;
  const size_t row_bytes = (lanes_ * sizeof(uint64_t) + kLine - 1) / kLine * kLine;
  return kStreams * kStateBytes + (size_t{num_slots_} * row + message % num_slots_) * row_bytes;
}

size_t SplitLayout::Slot(int me, int sender, uint64_t message) const {
  // A PE does not send to itself, so it has slots for n - 1 senders.
  const size_t index = sender < me ? sender : sender - 1;
  return Words(2 * n_pes_, 0) + (index * num_slots_ + message % num_slots_) * slot_bytes_;
}

Result<ArenaLayout> ArenaLayout::Create(int n_pes, size_t bytes, bool multimem, int most_lanes, size_t packet_bytes) {
  // A small arena gives the lanes a third, and split permutes a sixth.
  const size_t most = std::min(bytes / 3, LaneLayout::RecommendedBytes(n_pes, multimem));
  const Result<LaneLayout> lanes = LaneLayout::Create(n_pes, most, multimem, most_lanes, packet_bytes);
  if (!lanes.ok()) return lanes.status();
  const size_t most_of_splits = std::min(bytes / 6, SplitLayout::RecommendedBytes(n_pes));
  const SplitLayout splits = SplitLayout::Create(n_pes, most_of_splits, lanes->lanes());
  const size_t before = lanes->bytes() + splits.bytes();
  const Result<PairLayout> pairs = PairLayout::Create(n_pes, bytes > before ? bytes - before : 0);
  if (!pairs.ok()) return pairs.status();
  return ArenaLayout{*lanes, splits, *pairs, lanes->bytes(), before};
}

size_t ArenaLayout::RecommendedBytes(int n_pes, bool multimem) {
  return LaneLayout::RecommendedBytes(n_pes, multimem) + SplitLayout::RecommendedBytes(n_pes) +
         PairLayout::RecommendedBytes(n_pes);
}

}  // namespace xla_shmem::gpu
