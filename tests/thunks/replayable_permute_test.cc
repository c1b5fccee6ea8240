#include "xla_patch/thunks/replayable_permute.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <vector>

#include "tests/nvshmem/test_heap.h"
#include "xla_patch/nvshmem/host/host_api.h"

namespace xla_shmem {
namespace {

constexpr size_t kBytes = 200;

// Captures the permute with these edges once on every PE and replays it; PE p is slowed down every now and then, each
// at other times. The operand of replay r on PE p is filled with a byte that follows from both.
void ReplayPermute(const std::vector<int>& target_of, int replays, bool in_place) {
  const int n = static_cast<int>(target_of.size());
  const auto heap = testing::HeapOfOneProcess(n, 1 << 20);
  REQUIRE(host::SetHeap(heap.get()));
  const size_t offset = heap->Allocate(128 + kBytes);
  std::vector<int> source_of(n, -1);
  for (int pe = 0; pe < n; ++pe) {
    if (target_of[pe] >= 0) source_of[target_of[pe]] = pe;
  }
  std::atomic<int> wrong{0};
  testing::RunPes(n, [&](int pe) {
    char* base = heap->base(pe) + offset;
    const ReplayWords words{reinterpret_cast<uint64_t*>(base), reinterpret_cast<uint64_t*>(base + 64), base + 128};
    std::vector<char> operand(kBytes), other(kBytes);
    char* result = in_place ? operand.data() : other.data();
    host::Stream stream;
    stream.BeginCapture();
    EnqueueReplayablePermute(host::Api(), pe, source_of[pe], target_of[pe], words, operand.data(), result, kBytes,
                             &stream);
    const std::vector<host::Command> graph = stream.EndCapture();
    CHECK(stream.Idle());
    std::mt19937 random(pe);
    auto fill = [](int of, int replay) { return static_cast<char>(of * 37 + replay * 11 + 1); };
    for (int replay = 0; replay < replays; ++replay) {
      if (random() % 500 == 0) usleep(random() % 300);
      memset(operand.data(), fill(pe, replay), kBytes);
      stream.Launch(graph);
      std::string error;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      if (!host::Synchronize(stream, deadline, std::chrono::microseconds(20), &error)) {
        MESSAGE(error);
        ++wrong;
        return;
      }
      const char expected = source_of[pe] < 0 ? 0 : fill(source_of[pe], replay);
      wrong += std::count(result, result + kBytes, expected) != static_cast<ptrdiff_t>(kBytes);
    }
  });
  CHECK(wrong == 0);
  host::SetHeap(nullptr);
}

TEST_CASE("A ring captured once can be replayed 10,000 times at different speeds") {
  ReplayPermute({1, 2, 0}, 10000, /*in_place=*/false);
}

TEST_CASE("Operand and result may be one buffer in replays") { ReplayPermute({1, 0}, 3000, /*in_place=*/true); }

TEST_CASE("An open chain gives zeros at its start in every replay, whoever runs ahead") {
  ReplayPermute({1, 2, 3, -1}, 3000, /*in_place=*/false);
}

TEST_CASE("A self-edge and PEs without any edge can be replayed") {
  ReplayPermute({0, -1, -1}, 1000, /*in_place=*/false);
}

}  // namespace
}  // namespace xla_shmem
