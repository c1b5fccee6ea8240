#include "xla_patch/thunks/cpu/message_receiver.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/thunks/cpu/job.h"
#include "xla_patch/shm/futex.h"
#include "xla_patch/thunks/cpu/blocks.h"
#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/grant_board.h"
#include "xla_patch/thunks/cpu/message_sender.h"

namespace xla_shmem::testing {
namespace {

constexpr MessageKey kKey{5, 1};

// The sender may exit once its memory has been read (ProgressEngine::FindFailure).
TEST_CASE("A contribution that has been read waits no longer for its sender, reduced or not") {
  JobOptions options;
  options.single_copy = shm::SingleCopy::kAlways;
  Job job(options);
  constexpr size_t kBytes = 192 << 10;  // two reads
  std::vector<char> sent(kBytes, 7);
  Spans memory;
  memory.Add(sent.data(), kBytes);
  MessageSender sender(1, kKey, memory, /*overwritten=*/false);
  MessageReceiver receiver(0, kKey, memory);
  const PeContext& context = job.context(1);
  CHECK(sender.Advance(job.context(0), kBytes));
  CHECK(receiver.WaitsForSender(context));
  const MessageReceiver::View first = receiver.Look(context, false);
  REQUIRE(first.end > 0);
  REQUIRE(first.end < kBytes);
  CHECK(receiver.WaitsForSender(context));
  receiver.Consume(context, first.end);
  CHECK(receiver.WaitsForSender(context));
  REQUIRE(receiver.Look(context, false).end == kBytes);
  CHECK_FALSE(receiver.WaitsForSender(context));
  CHECK(sender.Advance(job.context(0), kBytes));
  CHECK(sender.done());
  receiver.Consume(context, kBytes);
  CHECK_FALSE(receiver.WaitsForSender(context));
}

TEST_CASE("A view of the sender's buffers is used while they are held, and the sender goes on when all is consumed") {
  JobOptions options;
  options.single_copy = shm::SingleCopy::kAlways;
  Job job(options);
  constexpr size_t kBytes = 192 << 10;  // two views
  std::vector<char> sent(kBytes, 7), other(64, 8);
  Spans memory;
  memory.Add(sent.data(), kBytes);
  memory.Add(other.data(), other.size());
  const size_t total = memory.total();
  MessageSender sender(1, kKey, memory, /*overwritten=*/false), revoked(1, {6, 1}, memory, /*overwritten=*/false);
  MessageReceiver receiver(0, kKey, memory), late(0, {6, 1}, memory);
  const PeContext& context = job.context(1);
  CHECK_FALSE(receiver.Look(context, true).is_of_sender());
  CHECK(sender.Advance(job.context(0), total));
  for (size_t end = 0; end < total;) {
    const MessageReceiver::View view = receiver.Look(context, true);
    REQUIRE(view.is_of_sender());
    REQUIRE(view.begin == end);
    REQUIRE(view.end > end);
    REQUIRE(receiver.Hold());
    CHECK(receiver.InBuffer(context, 0, end, 1) == sent.data() + end);
    CHECK(receiver.InBuffer(context, 1, 3, 61) == other.data() + 3);
    CHECK_FALSE(sender.done());
    end = view.end;
    receiver.Consume(context, end);
    receiver.Release();
    sender.Advance(job.context(0), total);
  }
  CHECK(sender.done());
  CHECK(revoked.Advance(job.context(0), total));
  REQUIRE(late.Look(context, true).is_of_sender());
  revoked.Revoke(job.context(0));
  CHECK_FALSE(late.Hold());
}

TEST_CASE("A receiver learns when the sender of a measured message began, whichever way it goes") {
  JobOptions options;
  options.single_copy = shm::SingleCopy::kAlways;
  Job job(options);
  constexpr size_t kBytes = 32 << 10;
  std::vector<char> sent(kBytes, 7), got(kBytes);
  Spans from, to;
  from.Add(sent.data(), kBytes);
  to.Add(got.data(), kBytes);
  const PeContext &sending = job.context(0), &receiving = job.context(1);
  BlockSet set;
  REQUIRE(TakeBlocks(receiving, kBytes, 1, &set));
  // 0: nobody measures. The channels have the same block, one after the other.
  for (const auto& sent_so : {std::pair{true, 123}, {false, 456}, {true, 0}, {false, 0}}) {
    const bool reads = sent_so.first;
    const int began = sent_so.second;
    CAPTURE(reads);
    CAPTURE(began);
    const MessageKey key{5, static_cast<uint64_t>(began + reads)};
    MessageSender sender(1, key, from, /*overwritten=*/false);
    MessageReceiver receiver(0, key, to);
    sender.Choose(reads, began);
    if (!reads) receiver.Grant(receiving, set.blocks[0], set.geometry);
    CHECK(sender.Advance(sending, kBytes));
    while (!receiver.done()) REQUIRE(receiver.Receive(receiving, kBytes));
    CHECK(receiver.came_through_slots() == !reads);
    CHECK(receiver.sender_began() == began);
    CHECK(got == sent);
    while (!sender.done()) sender.Advance(sending, kBytes);
    receiver.Close(receiving);
  }
}

TEST_CASE("A grant that mail makes needless wakes operations that wait for its record") {
  JobOptions options;
  options.single_copy = shm::SingleCopy::kOff;
  Job job(options);
  const PeContext &sending = job.context(0), &receiving = job.context(1);
  constexpr size_t kBytes = 4096, kMost = 64;
  std::vector<char> bytes(kBytes, 7);
  Spans memory;
  memory.Add(bytes.data(), kBytes);
  BlockSet set;
  REQUIRE(TakeBlocks(receiving, kBytes, kMost, &set));
  // Messages with one place on the board, as many as find a record there and one more.
  std::vector<MessageKey> keys;
  std::vector<MessageReceiver> receivers;
  const auto is_granted = [&](const MessageKey& key) { return SendChannel().Open(sending, 1, key); };
  for (MessageKey key = kKey; keys.empty() || is_granted(keys.back()); ++key.execution) {
    if (GrantBoard::Home(key) != GrantBoard::Home(kKey)) continue;
    REQUIRE(keys.size() < kMost);
    keys.push_back(key);
    receivers.emplace_back(0, key, memory);
    receivers.back().Grant(receiving, set.blocks[keys.size() - 1], set.geometry);
  }
  MessageReceiver &first = receivers.front(), &last = receivers.back();
  CHECK(last.Look(receiving, false).end == 0);
  CHECK_FALSE(is_granted(keys.back()));
  CHECK(MessageSender(1, keys.front(), memory, /*overwritten=*/false).Advance(sending, kBytes));
  // From here on nobody but the receiver rings the bell.
  shm::Doorbell& bell = job.heap().OwnBell();
  const uint32_t ticket = shm::PrepareSleep(bell);
  CHECK(first.Look(receiving, false).end == kBytes);
  CHECK(bell.ticket != ticket);
  shm::FinishSleep(bell);
  CHECK(last.Look(receiving, false).end == 0);
  CHECK(is_granted(keys.back()));
  first.Consume(receiving, kBytes);
  for (MessageReceiver& receiver : receivers) receiver.Close(receiving);
  ReturnBlocks(set);
}

}  // namespace
}  // namespace xla_shmem::testing
