#include "xla_patch/thunks/gpu/launch_form.h"

#include <algorithm>
#include <limits>

namespace xla_shmem::gpu {
namespace {

constexpr int kWarp = 32;
// Of a message, for a block: a block moves them to each peer. Small, because a block is slower than the link.
constexpr size_t kBytesOfBlock = 4 << 10;

// Blocks that share `bytes`, with a thread for each `unit` bytes of a block's share for a peer, and a warp for each
// peer, so that few are served one after another; at most so many.
LaunchForm Grid(size_t blocks, size_t bytes, size_t unit, size_t members, int most_threads) {
  LaunchForm form{};
  form.of_lane = Padded(DivideUp(bytes, blocks));
  const size_t peers = std::max<size_t>(members - 1, 1);
  const size_t warps = std::max(DivideUp(form.of_lane / unit * peers, kWarp), peers);
  form.blocks = static_cast<unsigned>(blocks);
  form.threads = static_cast<unsigned>(std::min<size_t>(warps * kWarp, most_threads));
  return form;
}

// Through slots.
LaunchForm GridOfSlots(int lanes, size_t bytes, size_t members, int most_threads) {
  const size_t blocks = std::clamp<size_t>(DivideUp(bytes, kBytesOfBlock), 1, static_cast<size_t>(lanes));
  return Grid(blocks, bytes, kPackBytes, members, most_threads);
}

// How many lanes carry the message in packets, 0 if it does not go in packets.
size_t PacketLanes(const LaneLayout& layout, CollectiveShape shape, size_t total, size_t peers) {
  size_t most = layout.packet_share();
  if (shape == kReduce) most = std::min(most, kPacketStagingBytes / peers / kPackBytes * kPackBytes);
  const auto lanes = static_cast<size_t>(layout.lanes());
  if (total > most * lanes) return 0;
  return std::clamp(DivideUp(total / kPacketUnit * peers, kMoveThreads), DivideUp(total, most), lanes);
}

}  // namespace

size_t OneShotBytes(size_t members) {
  // One shot sends (n - 1) times the bytes, two shots 2 (n - 1) / n times.
  constexpr size_t kExchange = 1 << 20;
  return members <= 2 ? std::numeric_limits<size_t>::max() : kExchange * members / ((members - 1) * (members - 2));
}

LaunchForm FormOf(const LaneLayout& layout, CollectiveShape shape, bool may_use_switch, size_t total, size_t members,
                  size_t peers) {
  const bool two_shot = shape == kTwoShot;
  const int threads = shape == kMove ? kMoveThreads : kOtherThreads;
  const size_t of_member = two_shot ? Padded(DivideUp(total, members)) : 0;
  const bool reduces_in_switch = may_use_switch && shape != kMove;
  const size_t packet_lanes = two_shot || reduces_in_switch ? 0 : PacketLanes(layout, shape, total, peers);
  LaunchForm form = packet_lanes != 0 ? Grid(packet_lanes, total, kPacketUnit, members, threads)
                                      : GridOfSlots(layout.lanes(), two_shot ? of_member : total, members, threads);
  form.in_packets = packet_lanes != 0;
  form.in_switch = reduces_in_switch || (may_use_switch && packet_lanes == 0 && members >= kLeastGatherInSwitch);
  form.of_member = of_member;
  // The message without data takes as long as several chunks.
  constexpr size_t kLeastChunks = 4;
  const bool is_large = !form.in_packets && form.of_lane > kLeastChunks * layout.slot_bytes();
  form.shares_slots = shape == kMove && peers == 1 && layout.shared_slot_bytes() != 0 && !form.in_switch && is_large;
  return form;
}

LaunchForm RaggedFormOf(const LaneLayout& layout, size_t bytes, size_t members) {
  return GridOfSlots(layout.lanes(), Padded(bytes), members, kOtherThreads);
}

LaunchForm SplitFormOf(const SplitLayout& layout, size_t total) {
  return GridOfSlots(layout.lanes(), total, /*members=*/2, kMoveThreads);
}

}  // namespace xla_shmem::gpu
