#include "xla_patch/thunks/cpu/grant_board.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/shm/test_heap.h"

namespace xla_shmem {
namespace {

// PE 0 sends, PE 1 receives and publishes.
struct Boards {
  Boards() : heap(testing::HeapOfOneProcess(2, 1 << 20)) {
    const size_t offset = heap->Allocate(GrantBoard::Bytes(2));
    sender = std::make_unique<GrantBoard>(heap.get(), offset, 0);
    receiver = std::make_unique<GrantBoard>(heap.get(), offset, 1);
  }
  std::unique_ptr<shm::Heap> heap;
  std::unique_ptr<GrantBoard> sender, receiver;
};

// A grant with fields that depend on the key.
GrantRecord GrantFor(const MessageKey& key) {
  GrantRecord grant{};
  grant.key = key;
  grant.block_offset = key.operation * 3 + key.execution * 5;
  grant.slot_bytes = static_cast<uint32_t>(grant.block_offset ^ 0x5a5a5a5a);
  grant.num_slots = static_cast<uint32_t>(grant.block_offset * 7);
  return grant;
}

bool Whole(const GrantRecord& seen, const MessageKey& key) {
  const GrantRecord expected = GrantFor(key);
  return seen.key == key && seen.block_offset == expected.block_offset && seen.slot_bytes == expected.slot_bytes &&
         seen.num_slots == expected.num_slots && seen.state != 0;
}

TEST_CASE("A grant is found under its key from publication to withdrawal") {
  Boards boards;
  const MessageKey key{17, 4};
  GrantRecord seen;
  CHECK(boards.sender->Find(1, key, &seen) == nullptr);
  const int record = boards.receiver->Publish(0, GrantFor(key));
  REQUIRE(record >= 0);
  REQUIRE(boards.sender->Find(1, key, &seen) != nullptr);
  CHECK(Whole(seen, key));
  CHECK(boards.sender->Find(1, {17, 5}, &seen) == nullptr);
  CHECK(boards.sender->Find(1, {18, 4}, &seen) == nullptr);
  CHECK(boards.sender->Find(0, key, &seen) == nullptr);
  boards.receiver->Withdraw(0, record);
  CHECK(boards.sender->Find(1, key, &seen) == nullptr);
}

TEST_CASE("Credit arrives in the sender's record, and starts at zero again") {
  Boards boards;
  const MessageKey key{1, 1};
  GrantRecord seen;
  for (int round = 0; round < 3; ++round) {
    const int record = boards.receiver->Publish(0, GrantFor(key));
    GrantRecord* found = boards.sender->Find(1, key, &seen);
    REQUIRE(found != nullptr);
    CHECK(found->credit == 0);
    boards.receiver->Credit(0, record, 9);
    CHECK(found->credit == 9);
    boards.receiver->Withdraw(0, record);
  }
}

TEST_CASE("Hundreds of grants for one sender are all found, and withdrawal frees their records") {
  Boards boards;
  for (int round = 0; round < 20; ++round) {
    std::vector<int> records;
    GrantRecord seen;
    for (uint64_t i = 0; i < 500; ++i) {
      records.push_back(boards.receiver->Publish(0, GrantFor({i, 7})));
      REQUIRE(records.back() >= 0);
    }
    CHECK(std::set<int>(records.begin(), records.end()).size() == 500);
    bool all = true;
    for (uint64_t i = 0; i < 500; ++i) all &= boards.sender->Find(1, {i, 7}, &seen) != nullptr && Whole(seen, {i, 7});
    CHECK(all);
    for (int record : records) boards.receiver->Withdraw(0, record);
  }
}

TEST_CASE("A full board refuses grants instead of overwriting, and takes grants again after a withdrawal") {
  Boards boards;
  std::vector<std::pair<MessageKey, int>> published;
  int refused = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    const int record = boards.receiver->Publish(0, GrantFor({i, i}));
    record >= 0 ? published.push_back({{i, i}, record}) : void(++refused);
  }
  CHECK(refused > 0);
  CHECK(published.size() > 900);
  GrantRecord seen;
  bool all = true;
  for (const auto& [key, record] : published) all &= boards.sender->Find(1, key, &seen) != nullptr && Whole(seen, key);
  CHECK(all);
  boards.receiver->Withdraw(0, published[0].second);
  CHECK(boards.receiver->Publish(0, GrantFor(published[0].first)) == published[0].second);
}

TEST_CASE("A reader never sees a torn record while two threads publish the same keys with other bodies") {
  Boards boards;
  constexpr int kEnough = 5000;
  std::atomic<bool> stop{false};
  std::vector<std::thread> publishers;
  std::vector<int> failed(2, 0);
  for (int id = 0; id < 2; ++id) {
    publishers.emplace_back([&, id] {
      for (uint64_t i = 0; !stop; ++i) {
        GrantRecord grant = GrantFor({i, i * i});
        grant.key = {static_cast<uint64_t>(id), 1};
        const int record = boards.receiver->Publish(0, grant);
        if (record < 0) {
          ++failed[id];
          continue;
        }
        if (i % 64 == 0) std::this_thread::yield();
        boards.receiver->Withdraw(0, record);
      }
    });
  }
  int torn = 0;
  uint64_t last_generation = 0;
  bool generations_repeat = false;
  for (int found = 0; found < kEnough;) {
    GrantRecord seen;
    if (boards.sender->Find(1, {0, 1}, &seen) == nullptr) continue;
    found += seen.state != last_generation;
    torn += seen.slot_bytes != static_cast<uint32_t>(seen.block_offset ^ 0x5a5a5a5a) ||
            seen.num_slots != static_cast<uint32_t>(seen.block_offset * 7);
    generations_repeat |= seen.state < last_generation;
    last_generation = seen.state;
  }
  stop = true;
  for (std::thread& publisher : publishers) publisher.join();
  CHECK(torn == 0);
  CHECK_FALSE(generations_repeat);
  CHECK(failed == std::vector<int>{0, 0});
}

}  // namespace
}  // namespace xla_shmem
