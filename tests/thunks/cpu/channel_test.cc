#include "xla_patch/thunks/cpu/channel.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "tests/thunks/cpu/job.h"

namespace xla_shmem::testing {
namespace {

constexpr Geometry kTwoSlots{128, 2};
constexpr MessageKey kKey{3, 4};

// A channel from PE 0 to PE 1 with two slots of 128 bytes; the test drives both ends.
struct Ends {
  Ends() : block(job.context(1).slots->Take(64 + 2 * 128)) {}

  bool OpenBoth() {
    return receive.Open(job.context(1), 0, kKey, block, kTwoSlots) && send.Open(job.context(0), 1, kKey);
  }
  bool Put(const char* text) {
    char* slot = send.FreeSlot();
    if (slot == nullptr) return false;
    memcpy(slot, text, 4);
    send.Signal(job.context(0));
    return true;
  }
  std::string Take(uint64_t chunk) {
    return receive.Arrived() > chunk ? std::string(receive.Slot(chunk), 4) : "nothing";
  }

  Job job;
  char* block;
  SendChannel send;
  ReceiveChannel receive;
};

TEST_CASE("A sender finds no channel before the receiver has granted it") {
  Ends ends;
  CHECK_FALSE(ends.send.Open(ends.job.context(0), 1, kKey));
  CHECK_FALSE(ends.send.open());
  CHECK(ends.OpenBoth());
  CHECK(ends.send.slot_bytes() == 128);
}

TEST_CASE("Chunks arrive in order, one slot after the other, and the third waits for the credit of the first") {
  Ends ends;
  REQUIRE(ends.OpenBoth());
  CHECK(ends.Put("one "));
  CHECK(ends.Put("two "));
  CHECK_FALSE(ends.Put("tri "));
  CHECK(ends.Take(0) == "one ");
  CHECK_FALSE(ends.Put("tri "));
  ends.receive.Credit(ends.job.context(1), 1);
  CHECK(ends.Put("tri "));
  CHECK_FALSE(ends.Put("four"));
  CHECK(ends.Take(1) == "two ");
  CHECK(ends.Take(2) == "tri ");
  CHECK(ends.Take(3) == "nothing");
  CHECK(ends.send.sent() == 3);
}

TEST_CASE("A closed channel is not found, and the next one starts at zero") {
  Ends ends;
  REQUIRE(ends.OpenBoth());
  CHECK(ends.Put("data"));
  CHECK(ends.Take(0) == "data");
  ends.receive.Close(ends.job.context(1));
  CHECK_FALSE(ends.receive.open());
  SendChannel late;
  CHECK_FALSE(late.Open(ends.job.context(0), 1, kKey));
  ReceiveChannel next;
  REQUIRE(next.Open(ends.job.context(1), 0, kKey, ends.block, kTwoSlots));
  CHECK(next.Arrived() == 0);
  CHECK(late.Open(ends.job.context(0), 1, kKey));
}

}  // namespace
}  // namespace xla_shmem::testing
