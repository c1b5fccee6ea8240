#include "xla_patch/thunks/cpu/mailboxes.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/shm/test_heap.h"

namespace xla_shmem {
namespace {

constexpr size_t kEager = 256;

// PE 0 sends, PE 1 receives.
struct Boxes {
  Boxes() : heap(testing::HeapOfOneProcess(2, 1 << 20)) {
    const size_t offset = heap->Allocate(Mailboxes::Bytes(kEager, 2));
    sender = std::make_unique<Mailboxes>(heap.get(), offset, kEager, 0);
    receiver = std::make_unique<Mailboxes>(heap.get(), offset, kEager, 1);
  }
  bool Put(const MessageKey& key, const char* text, MailboxProtocol protocol = MailboxProtocol::kEager) {
    const Mailbox mailbox = sender->Claim(1, key);
    if (mailbox.entry == nullptr) return false;
    strcpy(mailbox.data, text);
    sender->Post(1, mailbox, key, 64, 64, protocol);
    return true;
  }
  std::unique_ptr<shm::Heap> heap;
  std::unique_ptr<Mailboxes> sender, receiver;
};

TEST_CASE("A message is found under its key and size, from post to release") {
  Boxes boxes;
  const MessageKey key{17, 4};
  MailboxProtocol protocol;
  CHECK(boxes.receiver->Find(0, key, 64, &protocol).entry == nullptr);
  REQUIRE(boxes.Put(key, "hello"));
  CHECK(boxes.receiver->Find(0, {17, 5}, 64, &protocol).entry == nullptr);
  CHECK(boxes.receiver->Find(0, {18, 4}, 64, &protocol).entry == nullptr);
  CHECK(boxes.receiver->Find(0, key, 128, &protocol).entry == nullptr);
  CHECK(boxes.receiver->Find(1, key, 64, &protocol).entry == nullptr);
  const Mailbox mailbox = boxes.receiver->Find(0, key, 64, &protocol);
  REQUIRE(mailbox.entry != nullptr);
  CHECK(protocol == MailboxProtocol::kEager);
  CHECK(strcmp(mailbox.data, "hello") == 0);
  boxes.receiver->Release(mailbox);
  CHECK(boxes.receiver->Find(0, key, 64, &protocol).entry == nullptr);
}

TEST_CASE("Messages may be taken in any order") {
  Boxes boxes;
  MailboxProtocol protocol;
  for (uint64_t execution = 0; execution < 6; ++execution) REQUIRE(boxes.Put({3, execution}, "x"));
  for (uint64_t execution : {4, 0, 5, 2, 1, 3}) {
    const Mailbox mailbox = boxes.receiver->Find(0, {3, execution}, 64, &protocol);
    REQUIRE(mailbox.entry != nullptr);
    boxes.receiver->Release(mailbox);
  }
}

TEST_CASE("A sender finds no free mailbox until the receiver releases one") {
  Boxes boxes;
  uint64_t posted = 0;
  while (boxes.Put({3, posted}, "x")) ++posted;
  CHECK(posted >= 8);
  CHECK_FALSE(boxes.sender->HasFreeMailbox(1, {3, posted}));
  MailboxProtocol protocol;
  boxes.receiver->Release(boxes.receiver->Find(0, {3, 0}, 64, &protocol));
  CHECK(boxes.sender->HasFreeMailbox(1, {3, posted}));
  CHECK(boxes.Put({3, posted}, "x"));
}

TEST_CASE("Operations that the receiver has not reached leave mailboxes for others") {
  Boxes boxes;
  int refused = 0;
  for (uint64_t operation = 0; operation < 32; ++operation) {
    const uint64_t id = operation * 0x9e3779b97f4a7c15ull;  // like the pass's ids: spread over 64 bits
    refused += !boxes.Put({id, 1}, "x");
  }
  CHECK(refused <= 2);
}

TEST_CASE("A sender sees whether a receiver has advertised that it reads its memory") {
  Boxes boxes;
  CHECK_FALSE(boxes.sender->IsReadBy(1));
  for (const bool reads : {true, false}) {
    boxes.receiver->AdvertiseDirectReads(0, reads);
    CHECK(boxes.sender->IsReadBy(1) == reads);
    CHECK_FALSE(boxes.receiver->IsReadBy(0));
  }
}

TEST_CASE("Mailboxes grow with the heap, up to 8 KiB, and are equal for equal jobs") {
  CHECK(Mailboxes::EagerBytes(64 << 20, 2) == 8 << 10);
  CHECK(Mailboxes::EagerBytes(8 << 20, 8) == 2 << 10);
  CHECK(Mailboxes::EagerBytes(256 << 10, 64) == 256);
  for (int n_pes : {2, 8, 64}) CHECK(Mailboxes::EagerBytes(10000000, n_pes) % 64 == 0);
}

TEST_CASE("Two threads that post and two that take lose nothing and see no torn message") {
  Boxes boxes;
  constexpr uint64_t kMessages = 20000;
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (uint64_t id = 0; id < 2; ++id) {
    threads.emplace_back([&, id] {
      for (uint64_t i = 0; i < kMessages; ++i) {
        Mailbox mailbox;
        while ((mailbox = boxes.sender->Claim(1, {id, i})).entry == nullptr) std::this_thread::yield();
        for (uint64_t word = 0; word < 8; ++word) reinterpret_cast<uint64_t*>(mailbox.data)[word] = id ^ (i * 3 + word);
        boxes.sender->Post(1, mailbox, {id, i}, 64, 64, MailboxProtocol::kEager);
      }
    });
    threads.emplace_back([&, id] {
      for (uint64_t i = 0; i < kMessages; ++i) {
        MailboxProtocol protocol;
        Mailbox mailbox;
        while ((mailbox = boxes.receiver->Find(0, {id, i}, 64, &protocol)).entry == nullptr) std::this_thread::yield();
        bool whole = true;
        for (uint64_t word = 0; word < 8; ++word) {
          whole &= reinterpret_cast<const uint64_t*>(mailbox.data)[word] == (id ^ (i * 3 + word));
        }
        torn += !whole;
        boxes.receiver->Release(mailbox);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
}

}  // namespace
}  // namespace xla_shmem
