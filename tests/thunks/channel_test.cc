#include "xla_patch/thunks/channel.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/nvshmem/test_heap.h"
#include "tests/thunks/job.h"
#include "xla_patch/nvshmem/host/stream.h"

namespace xla_shmem::testing {
namespace {

constexpr Geometry kTwoSlots{128, 2};
constexpr MessageKey kKey{3, 4};

// A channel from PE 0 to PE 1 with two slots of 128 bytes, both ends driven here.
struct Ends {
  Ends() : block(job.context(1).slots->Take(64 + 2 * 128)) {}

  bool OpenBoth() {
    return receive.Open(job.context(1), 0, kKey, block, kTwoSlots, &receiving) && send.Open(job.context(0), 1, kKey);
  }
  void Put(const char* text) {
    const std::vector<const char*> buffers = {text};
    send.EnqueueMessage(job.context(0), buffers, {{0, 0, 0, 4}}, &sending);
  }
  std::string Arrived() {
    const char* slot = receive.EnqueueArrival(job.context(1), &receiving);
    return receiving.Advance() ? std::string(slot, 4) : "nothing";
  }

  Job job;
  char* block;
  host::Stream sending, receiving;
  SendChannel send;
  ReceiveChannel receive;
};

TEST_CASE("A sender finds no channel before the receiver has granted it") {
  Ends ends;
  CHECK_FALSE(ends.send.Open(ends.job.context(0), 1, kKey));
  CHECK_FALSE(ends.send.open());
  CHECK(ends.OpenBoth());
  CHECK(ends.send.geometry().slot_bytes == 128);
  CHECK(ends.send.geometry().num_slots == 2);
}

TEST_CASE("Messages arrive in order, one slot after the other, and the third waits for the first one's credit") {
  Ends ends;
  REQUIRE(ends.OpenBoth());
  ends.Put("one ");
  ends.Put("two ");
  CHECK(ends.sending.Idle());
  CHECK_FALSE(ends.send.Waiting());
  ends.Put("tri ");
  CHECK_FALSE(ends.sending.Advance());
  CHECK(ends.send.Waiting());
  CHECK(ends.send.Counters() == "PE 1 has consumed 0 of 3 messages in 2 slots");
  CHECK(ends.Arrived() == "one ");
  CHECK_FALSE(ends.sending.Advance());
  ends.receive.EnqueueCredit(ends.job.context(1), &ends.receiving);
  CHECK(ends.sending.Advance());
  CHECK(ends.Arrived() == "two ");
  CHECK(ends.Arrived() == "tri ");
  CHECK_FALSE(ends.receive.Waiting());
  CHECK(ends.Arrived() == "nothing");
  CHECK(ends.receive.Waiting());
  CHECK(ends.receive.Counters() == "PE 0 has put 3 of 4 messages into slots of 128 bytes");
}

TEST_CASE(
    "A sender whose receiver is done waits for nothing, even when the record already counts for another channel") {
  Ends ends;
  REQUIRE(ends.OpenBoth());
  for (int message = 0; message < 3; ++message) {
    ends.Put("data");
    CHECK(ends.Arrived() == "data");
    ends.receive.EnqueueCredit(ends.job.context(1), &ends.receiving);
  }
  ends.receive.Close(ends.job.context(1), &ends.receiving);
  CHECK_FALSE(ends.receive.open());
  CHECK_FALSE(ends.send.Waiting());
  ReceiveChannel next;
  REQUIRE(next.Open(ends.job.context(1), 0, kKey, ends.block, kTwoSlots, &ends.receiving));
  CHECK_FALSE(ends.send.Waiting());
}

}  // namespace
}  // namespace xla_shmem::testing
