// Kernels of large messages alone: the test is the other PE.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/nvshmem/gpu/cuda_double.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/thunks/gpu/arena_layout.h"

namespace xla_shmem::testing {
namespace {

using gpu::Word;

constexpr auto kUse = gpu::LaneUse::kInLine;
constexpr Word kTag = 7;

// Two PEs with one lane. The kernel runs on PE 0.
struct TwoPes {
  gpu::LaneLayout layout = *gpu::LaneLayout::Create(2, 64 << 10, /*multimem=*/false, /*most_lanes=*/1);
  std::vector<Word> own = std::vector<Word>(layout.bytes() / sizeof(Word));
  std::vector<Word> peer = std::vector<Word>(own.size());
  std::vector<Word> progress = std::vector<Word>(gpu::PlaceOf(gpu::kLate, 2));
  gpu::CollectiveArguments arguments{};

  TwoPes() {
    gpu::LaneSet& lanes = arguments.lanes;
    lanes.arrived = layout.Arrived(kUse);
    lanes.sent = layout.Sent(kUse);
    lanes.slots = layout.Slots(kUse);
    lanes.slot_bytes = layout.slot_bytes();
    lanes.launches = own.data() + layout.Launches(kUse) / sizeof(Word);
    lanes.progress = progress.data();
    lanes.n_pes = 2;
    arguments.tag = kTag;
    arguments.members = 2;
    arguments.send_to = arguments.receive_from = gpu::kAllMembers;
    arguments.pes[1] = 1;
    arguments.arenas[0] = reinterpret_cast<char*>(own.data());
    arguments.arenas[1] = reinterpret_cast<char*>(peer.data());
    arguments.parts = 1;
  }

  // The slot of a message in an arena, and its word in that of the receiver.
  char* Slot(std::vector<Word>& arena, Word message) const {
    return reinterpret_cast<char*>(arena.data()) + layout.Slots(kUse) + message % gpu::kLaneSlots * layout.slot_bytes();
  }
  Word* Arrived(std::vector<Word>& arena, int sender, Word message) const {
    return arena.data() + layout.Arrived(kUse) / sizeof(Word) + gpu::kLaneSlots * sender + message % gpu::kLaneSlots;
  }
  std::vector<char> BytesSent(Word message) { return {Slot(peer, message), Slot(peer, message) + layout.slot_bytes()}; }

  // Runs the kernel. The peer answers each message, with message m of bytes m, and keeps what it got.
  std::vector<std::vector<char>> Run(const char* kernel, Word messages) {
    std::thread running([&] { CHECK(FindKernel(kernel)->run(&arguments, 0, 1)); });
    std::vector<std::vector<char>> sent;
    for (Word message = 1; message <= messages; ++message) {
      const Word word = gpu::TaggedWord(kTag, message);
      while (__atomic_load_n(Arrived(peer, 0, message), __ATOMIC_ACQUIRE) != word) std::this_thread::yield();
      sent.push_back(BytesSent(message));
      std::fill_n(Slot(own, message), layout.slot_bytes(), static_cast<char>(message));
      __atomic_store_n(Arrived(own, 1, message), word, __ATOMIC_RELEASE);
    }
    running.join();
    return sent;
  }
};

// Chunk i of the operand has bytes 10 * (i + 1).
std::vector<char> Operand(size_t chunks, size_t chunk_bytes) {
  std::vector<char> operand(chunks * chunk_bytes);
  for (size_t i = 0; i < operand.size(); ++i) operand[i] = static_cast<char>(10 * (1 + i / chunk_bytes));
  return operand;
}

TEST_CASE("A lane sends a chunk before it takes the one before, so each is on its way while another is copied") {
  constexpr size_t kChunks = 6;  // more than slots
  TwoPes pes;
  const size_t chunk = pes.layout.slot_bytes();
  std::vector<char> operand = Operand(kChunks, chunk);
  operand.resize(operand.size() + chunk);
  // The result lies a chunk behind the operand: each chunk that is taken overwrites the next one of the operand.
  pes.arguments.total = pes.arguments.of_lane = kChunks * chunk;
  pes.arguments.part[0] = {operand.data(), operand.data() + chunk, kChunks * chunk, 0};
  const std::vector<std::vector<char>> sent = pes.Run("move", kChunks);
  for (size_t i = 0; i < kChunks; ++i) {
    CHECK(sent[i] == std::vector<char>(chunk, static_cast<char>(10 * (i + 1))));
    CHECK(operand[(i + 1) * chunk] == static_cast<char>(i + 1));
  }
}

TEST_CASE("Both halves of a two-shot all-reduce overlap: operands go out before the chunk before is reduced") {
  constexpr size_t kChunks = 4;
  TwoPes pes;
  const size_t chunk = pes.layout.slot_bytes();
  // Each of the two members reduces kChunks chunks; PE 0 the first ones.
  const size_t of_member = kChunks * chunk;
  std::vector<char> operand(2 * of_member, 1);
  pes.arguments.shape = gpu::kTwoShot;
  pes.arguments.elements = gpu::kU8;
  pes.arguments.total = 2 * of_member;
  pes.arguments.of_member = pes.arguments.of_lane = of_member;
  pes.arguments.part[0] = {operand.data(), operand.data(), 2 * of_member, 0};
  const std::vector<std::vector<char>> sent = pes.Run("reduce", 2 * kChunks);
  // Operands and results in this order. Every result is 1 + the number of the peer's message with its operands.
  struct Message {
    bool operands;
    int value;
  };
  const std::vector<Message> order = {{true, 1},  {true, 1}, {false, 2}, {true, 1},
                                      {false, 3}, {true, 1}, {false, 5}, {false, 7}};
  for (size_t i = 0; i < order.size(); ++i) {
    CAPTURE(i);
    CHECK(sent[i] == std::vector<char>(chunk, static_cast<char>(order[i].value)));
  }
  // What the peer reduced came in messages 3, 5, 7 and 8.
  const int results[] = {2, 3, 5, 7, 3, 5, 7, 8};
  for (size_t i = 0; i < 2 * kChunks; ++i) CHECK(operand[i * chunk] == static_cast<char>(results[i]));
}

TEST_CASE("No thread serves the peers of an NVL72 domain one after another") {
  for (const int members : {2, 8, 72}) {
    CAPTURE(members);
    const SerialSteps moves = CountSerialSteps(members, gpu::kMoveThreads);
    const SerialSteps others = CountSerialSteps(members, gpu::kOtherThreads);
    CHECK(moves.words == 1);
    CHECK(others.words == 1);
    CHECK(moves.copies == (members + 14) / 16);  // a warp for each of 16 peers
    CHECK(others.copies == (members + 6) / 8);
  }
}

}  // namespace
}  // namespace xla_shmem::testing
