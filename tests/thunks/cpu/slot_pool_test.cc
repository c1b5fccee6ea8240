#include "xla_patch/thunks/cpu/slot_pool.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace xla_shmem {
namespace {

// An arena at a 64-byte boundary.
struct Arena {
  explicit Arena(size_t bytes) : memory(bytes + 64) {
    base = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }
  std::vector<char> memory;
  char* base;
};

TEST_CASE("A returned block is the next block of its size") {
  Arena arena(64 << 10);
  SlotPool pool(arena.base, 64 << 10);
  char* block = pool.Take(1000);
  pool.Return(block, 1000);
  CHECK(pool.Take(900) == block);
}

TEST_CASE("A block larger than the arena is refused, one of exactly its size is not") {
  Arena arena(64 << 10);
  SlotPool pool(arena.base, 64 << 10);
  CHECK(pool.Take((64 << 10) + 1) == nullptr);
  CHECK(pool.Take(SIZE_MAX) == nullptr);
  char* all = pool.Take(64 << 10);
  CHECK(all == arena.base);
  CHECK(pool.Take(1) == nullptr);
  pool.Return(all, 64 << 10);
  CHECK(pool.Take(1) != nullptr);
}

TEST_CASE("A large free block is split for small requests once there are no small ones") {
  Arena arena(4 << 10);
  SlotPool pool(arena.base, 4 << 10);
  char* all = pool.Take(4 << 10);
  pool.Return(all, 4 << 10);
  int blocks = 0;
  while (pool.Take(256) != nullptr) ++blocks;
  CHECK(blocks == 16);
}

TEST_CASE("Small blocks that are all free again are joined to a large block") {
  Arena arena(64 << 10);
  SlotPool pool(arena.base, 64 << 10);
  std::vector<char*> small;
  while (char* block = pool.Take(256)) small.push_back(block);
  CHECK(small.size() == 256);
  for (char* block : small) pool.Return(block, 256);
  CHECK(pool.Take(64 << 10) != nullptr);
}

TEST_CASE("An arena whose size is no power of two is used up to its last blocks") {
  constexpr size_t kBytes = (64 << 10) + (8 << 10) + 256;
  Arena arena(kBytes);
  SlotPool pool(arena.base, kBytes);
  CHECK(pool.Take(64 << 10) != nullptr);
  CHECK(pool.Take(8 << 10) != nullptr);
  CHECK(pool.Take(256) != nullptr);
  CHECK(pool.Take(1) == nullptr);
}

TEST_CASE("Blocks in use never overlap, are aligned, and lie in the arena") {
  constexpr size_t kBytes = 1 << 20;
  Arena arena(kBytes);
  SlotPool pool(arena.base, kBytes);
  std::mt19937 random(7);
  std::map<char*, size_t> used;
  int refused = 0;
  for (int step = 0; step < 50000; ++step) {
    if (random() % 2 == 0 && !used.empty()) {
      auto victim = used.begin();
      std::advance(victim, random() % used.size());
      pool.Return(victim->first, victim->second);
      used.erase(victim);
      continue;
    }
    const size_t bytes = random() % (size_t{1} << (1 + random() % 18));
    char* block = pool.Take(bytes);
    if (block == nullptr) {
      ++refused;
      continue;
    }
    if (reinterpret_cast<uintptr_t>(block) % 64 != 0) FAIL("not aligned");
    if (block < arena.base || block + bytes > arena.base + kBytes) FAIL("outside the arena");
    const auto [entry, fresh] = used.emplace(block, bytes);
    if (!fresh) FAIL("handed out twice");
    if (auto next = std::next(entry); next != used.end() && block + bytes > next->first) FAIL("overlap above");
    if (entry != used.begin() && std::prev(entry)->first + std::prev(entry)->second > block) FAIL("overlap below");
  }
  CHECK(refused < 40000);
}

TEST_CASE("Threads take and return at once without sharing a block") {
  constexpr size_t kBytes = 256 << 10;
  Arena arena(kBytes);
  SlotPool pool(arena.base, kBytes);
  std::vector<std::thread> threads;
  std::vector<int> clashes(4, 0);
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(id);
      for (int round = 0; round < 5000; ++round) {
        const size_t bytes = 1 + random() % 5000;
        char* block = pool.Take(bytes);
        if (block == nullptr) continue;
        memset(block, id, bytes);
        if (round % 16 == 0) std::this_thread::yield();
        for (size_t i = 0; i < bytes; ++i) clashes[id] += block[i] != id;
        pool.Return(block, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(clashes == std::vector<int>{0, 0, 0, 0});
}

}  // namespace
}  // namespace xla_shmem
