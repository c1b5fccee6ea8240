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
  bool Put(const MessageKey& key, const char* text, MailKind kind = MailKind::kEager) {
    const Mail mail = sender->Claim(1, key);
    if (mail.entry == nullptr) return false;
    strcpy(mail.data, text);
    sender->Post(1, mail, key, 64, 64, kind);
    return true;
  }
  std::unique_ptr<shm::Heap> heap;
  std::unique_ptr<Mailboxes> sender, receiver;
};

TEST_CASE("A message is found under its key and size, from its posting to its release") {
  Boxes boxes;
  const MessageKey key{17, 4};
  MailKind kind;
  CHECK(boxes.receiver->Find(0, key, 64, &kind).entry == nullptr);
  REQUIRE(boxes.Put(key, "hello"));
  CHECK(boxes.receiver->Find(0, {17, 5}, 64, &kind).entry == nullptr);
  CHECK(boxes.receiver->Find(0, {18, 4}, 64, &kind).entry == nullptr);
  CHECK(boxes.receiver->Find(0, key, 128, &kind).entry == nullptr);
  CHECK(boxes.receiver->Find(1, key, 64, &kind).entry == nullptr);
  const Mail mail = boxes.receiver->Find(0, key, 64, &kind);
  REQUIRE(mail.entry != nullptr);
  CHECK(kind == MailKind::kEager);
  CHECK(strcmp(mail.data, "hello") == 0);
  boxes.receiver->Release(mail);
  CHECK(boxes.receiver->Find(0, key, 64, &kind).entry == nullptr);
}

TEST_CASE("Messages may be taken in any order, whatever order they were posted in") {
  Boxes boxes;
  MailKind kind;
  for (uint64_t execution = 0; execution < 6; ++execution) REQUIRE(boxes.Put({3, execution}, "x"));
  for (uint64_t execution : {4, 0, 5, 2, 1, 3}) {
    const Mail mail = boxes.receiver->Find(0, {3, execution}, 64, &kind);
    REQUIRE(mail.entry != nullptr);
    boxes.receiver->Release(mail);
  }
}

TEST_CASE("A sender that finds no entry is told so, and has room again after a release") {
  Boxes boxes;
  uint64_t posted = 0;
  while (boxes.Put({3, posted}, "x")) ++posted;
  CHECK(posted >= 8);
  CHECK_FALSE(boxes.sender->HasRoom(1, {3, posted}));
  MailKind kind;
  boxes.receiver->Release(boxes.receiver->Find(0, {3, 0}, 64, &kind));
  CHECK(boxes.sender->HasRoom(1, {3, posted}));
  CHECK(boxes.Put({3, posted}, "x"));
}

TEST_CASE("Operations that a receiver has not come to leave entries for others") {
  Boxes boxes;
  int refused = 0;
  for (uint64_t operation = 0; operation < 32; ++operation) {
    const uint64_t id = operation * 0x9e3779b97f4a7c15ull;  // as the pass makes them: spread over 64 bits
    refused += !boxes.Put({id, 1}, "x");
  }
  CHECK(refused <= 2);
}

TEST_CASE("What is asked of a receiver's memory is what that receiver said") {
  Boxes boxes;
  CHECK_FALSE(boxes.sender->ReadsDirectly(1));
  for (const bool reads : {true, false}) {
    boxes.receiver->AdvertiseDirectReads(0, reads);
    CHECK(boxes.sender->ReadsDirectly(1) == reads);
    CHECK_FALSE(boxes.receiver->ReadsDirectly(0));
  }
}

TEST_CASE("Entries grow with the heap, up to 8 KiB, and are the same for the same job") {
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
        Mail mail;
        while ((mail = boxes.sender->Claim(1, {id, i})).entry == nullptr) std::this_thread::yield();
        for (uint64_t word = 0; word < 8; ++word) reinterpret_cast<uint64_t*>(mail.data)[word] = id ^ (i * 3 + word);
        boxes.sender->Post(1, mail, {id, i}, 64, 64, MailKind::kEager);
      }
    });
    threads.emplace_back([&, id] {
      for (uint64_t i = 0; i < kMessages; ++i) {
        MailKind kind;
        Mail mail;
        while ((mail = boxes.receiver->Find(0, {id, i}, 64, &kind)).entry == nullptr) std::this_thread::yield();
        bool whole = true;
        for (uint64_t word = 0; word < 8; ++word) {
          whole &= reinterpret_cast<const uint64_t*>(mail.data)[word] == (id ^ (i * 3 + word));
        }
        torn += !whole;
        boxes.receiver->Release(mail);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
}

}  // namespace
}  // namespace xla_shmem
