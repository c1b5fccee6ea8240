#include "xla_patch/shm/futex.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <thread>
#include <vector>

#include "tests/shm/process_group.h"

namespace xla_shmem::shm {
namespace {

using Clock = std::chrono::steady_clock;

// Returns when `word` is at least `value`. False if a ring was lost: the sleep continued long after the word had
// changed.
bool SleepUntil(Doorbell& bell, const std::atomic<uint64_t>& word, uint64_t value) {
  while (word.load(std::memory_order_acquire) < value) {
    const uint32_t ticket = PrepareSleep(bell);
    const bool arrived = word.load(std::memory_order_acquire) >= value;
    const Clock::time_point start = Clock::now();
    if (!arrived) Sleep(bell, ticket, std::chrono::seconds(5));
    FinishSleep(bell);
    if (Clock::now() - start > std::chrono::seconds(4)) return false;
  }
  return true;
}

constexpr uint64_t kRounds = 50000;  // by threads, and again by processes

// One side of a ping-pong in which both sides always sleep.
bool Bounce(Doorbell& own, Doorbell& theirs, std::atomic<uint64_t>& mine, std::atomic<uint64_t>& yours, bool serve) {
  for (uint64_t round = 1; round <= kRounds; ++round) {
    // A ring can only be lost between the load and the sleep: varies the time of the ring over that moment.
    for (uint64_t i = 0; i < round * 7919 % 256; ++i) CpuRelax();
    if (!serve && !SleepUntil(own, mine, round)) return false;
    yours.store(round, std::memory_order_release);
    Ring(theirs);
    if (serve && !SleepUntil(own, mine, round)) return false;
  }
  return true;
}

struct Table {
  Doorbell bells[2];
  alignas(64) std::atomic<uint64_t> words[2] = {0, 0};
};

TEST_CASE("No ring is lost between two threads that always sleep") {
  Table table;
  bool server = false;
  std::thread other([&] { server = Bounce(table.bells[0], table.bells[1], table.words[0], table.words[1], true); });
  CHECK(Bounce(table.bells[1], table.bells[0], table.words[1], table.words[0], false));
  other.join();
  CHECK(server);
}

TEST_CASE("No ring is lost between two processes that always sleep") {
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* table = new (memory) Table;
  testing::ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const int peer = 1 - rank;
    return Bounce(table->bells[rank], table->bells[peer], table->words[rank], table->words[peer], rank == 0) ? ""
                                                                                                             : "lost";
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
  munmap(memory, sizeof(Table));
}

TEST_CASE("One ring wakes all sleepers of the bell") {
  Doorbell bell;
  std::atomic<uint64_t> word{0};
  std::atomic<int> awake{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] { awake += SleepUntil(bell, word, 1); });
  }
  while (bell.sleepers.load() < 4) std::this_thread::yield();
  word.store(1, std::memory_order_release);
  Ring(bell);
  for (std::thread& sleeper : sleepers) sleeper.join();
  CHECK(awake == 4);
  CHECK(bell.sleepers == 0);
}

TEST_CASE("A ring without sleepers does not change the ticket") {
  Doorbell bell;
  Ring(bell);
  CHECK(bell.ticket == 0);
}

TEST_CASE("A sleep without a ring ends after its limit") {
  Doorbell bell;
  const uint32_t ticket = PrepareSleep(bell);
  const Clock::time_point start = Clock::now();
  Sleep(bell, ticket, std::chrono::milliseconds(20));
  FinishSleep(bell);
  CHECK(Clock::now() - start >= std::chrono::milliseconds(15));
}

}  // namespace
}  // namespace xla_shmem::shm
