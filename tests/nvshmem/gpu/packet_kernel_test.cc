// A kernel of packets alone: the test is the other PE, and the watchdog.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/thunks/gpu/arena_layout.h"

namespace xla_shmem::testing {
namespace {

using gpu::Word;

TEST_CASE("A lane that has the head of a message and waits for the rest obeys the watchdog, and names the peer") {
  const Result<gpu::LaneLayout> layout = gpu::LaneLayout::Create(2, 64 << 10);
  REQUIRE(layout.ok());
  REQUIRE(layout->packet_share() >= 16);
  constexpr auto kUse = gpu::LaneUse::kInLine;
  constexpr Word kTag = 7;
  std::vector<Word> own(layout->bytes() / sizeof(Word)), peer(own.size()), progress(gpu::PlaceOf(gpu::kLate, 2));
  char source[16] = {}, results[32] = {};
  gpu::CollectiveArguments arguments{};
  arguments.lanes.packets = layout->Packets(kUse);
  arguments.lanes.packets_sent = layout->PacketsSent(kUse);
  arguments.lanes.packet_slot_bytes = layout->packet_slot_bytes();
  arguments.lanes.arrived = layout->Arrived(kUse);
  arguments.lanes.sent = layout->Sent(kUse);
  arguments.lanes.launches = own.data() + layout->Launches(kUse) / sizeof(Word);
  arguments.lanes.progress = progress.data();
  arguments.lanes.n_pes = 2;
  arguments.tag = kTag;
  arguments.members = 2;
  arguments.send_to = arguments.receive_from = gpu::kAllMembers;
  arguments.pes[1] = 1;
  arguments.arenas[0] = reinterpret_cast<char*>(own.data());
  arguments.arenas[1] = reinterpret_cast<char*>(peer.data());
  arguments.total = arguments.of_lane = sizeof(source);
  arguments.parts = 1;
  arguments.dest_has_parts = true;
  arguments.part[0] = {source, results, sizeof(source), 0};
  // The first message goes through the second slot.
  own[(layout->Packets(kUse) + layout->packet_slot_bytes()) / sizeof(Word)] = gpu::TaggedWord(kTag, 1);
  bool ended = true;
  std::thread kernel([&] { ended = FindKernel("move_packets")->run(&arguments, 0, 1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  __atomic_store_n(&progress[gpu::kOrder], gpu::kOrderTrap, __ATOMIC_RELEASE);
  kernel.join();
  CHECK_FALSE(ended);
  CHECK(progress[gpu::PlaceOf(gpu::kLate, 1)] == 1);
}

}  // namespace
}  // namespace xla_shmem::testing
