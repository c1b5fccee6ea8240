// Mistakes in the books of the protocol end the process where they are made.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/thunks/cpu/job.h"
#include "tests/types/broken_invariant.h"
#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/collectives.h"
#include "xla_patch/thunks/cpu/in_process_collective.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/message_receiver.h"
#include "xla_patch/thunks/cpu/message_sender.h"
#include "xla_patch/thunks/cpu/slot_pool.h"

namespace xla_shmem::testing {
namespace {

constexpr MessageKey kKey{3, 4};
constexpr Geometry kTwoSlots{128, 2};

bool Breaks(const std::string& text, const std::string& invariant) {
  return text.find("broken invariant: " + invariant) != std::string::npos;
}

TEST_CASE("A block that is returned twice, or to another pool") {
  alignas(64) static char memory[1024];
  alignas(64) static char elsewhere[512];
  SlotPool pool(memory, 1024);
  char* const block = pool.Take(512);
  CHECK(Breaks(BrokenInvariant([&] {
                 pool.Return(block, 512);
                 pool.Return(block, 512);
               }),
               "BlockBytes(size_class) <= in_use_"));
  CHECK(Breaks(BrokenInvariant([&] { pool.Return(elsewhere, 512); }), "offset < bytes_"));
  CHECK(
      Breaks(BrokenInvariant([&] { pool.Return(block + 256, 512); }), "offset % BlockBytes(size_class) == size_t{0}"));
}

TEST_CASE("A mailbox that is filled twice, or given back by someone who has not found it") {
  Job job;
  Mailboxes& sender = *job.context(0).mailboxes;
  Mailboxes& receiver = *job.context(1).mailboxes;
  const Mailbox mailbox = sender.Claim(1, kKey);
  const auto post = [&](size_t bytes, size_t ready) {
    sender.Post(1, mailbox, kKey, bytes, ready, MailboxProtocol::kEager);
  };
  CHECK(Breaks(BrokenInvariant([&] { post(64, 128); }), "ready <= bytes"));
  CHECK(Breaks(BrokenInvariant([&] { post(sender.eager_bytes() + 64, 64); }), "bytes <= eager_bytes_"));
  post(64, 64);
  CHECK(Breaks(BrokenInvariant([&] { post(64, 64); }), "entry.state.load"));
  CHECK(Breaks(BrokenInvariant([&] { receiver.Release(mailbox); }), "mailbox.entry->state.load"));
}

TEST_CASE("A slot that is read before its chunk is there, and credits that run ahead or back") {
  Job job;
  char* const block = job.context(1).slots->Take(64 + 2 * 128);
  ReceiveChannel receive;
  SendChannel send;
  REQUIRE(receive.Open(job.context(1), 0, kKey, block, kTwoSlots));
  REQUIRE(send.Open(job.context(0), 1, kKey));
  CHECK(Breaks(BrokenInvariant([&] { receive.Slot(0); }), "chunk < Arrived()"));
  CHECK(Breaks(BrokenInvariant([&] { receive.Credit(job.context(1), 1); }), "chunk <= Arrived()"));
  CHECK(Breaks(BrokenInvariant([&] { receive.Open(job.context(1), 0, kKey, block, kTwoSlots); }), "block_ == nullptr"));
  CHECK(Breaks(BrokenInvariant([&] {
                 for (int chunk = 0; chunk < 3; ++chunk) send.Signal(job.context(0));
               }),
               "sent_ - geometry_.num_slots < Load(credit_)"));
  send.Signal(job.context(0));
  receive.Credit(job.context(1), 1);
  CHECK(Breaks(BrokenInvariant([&] { receive.Credit(job.context(1), 1); }), "Load(Row(sender, pe_)[record].credit)"));
}

TEST_CASE("A message that is used past its end, backwards, or sent before it is ready") {
  Job job;
  std::vector<char> memory(128);
  Spans spans;
  spans.Add(memory.data(), memory.size());
  MessageReceiver receiver(0, kKey, spans);
  CHECK(Breaks(BrokenInvariant([&] { receiver.Consume(job.context(1), 192); }), "end <= total()"));
  CHECK(Breaks(BrokenInvariant([&] {
                 receiver.Consume(job.context(1), 128);
                 receiver.Consume(job.context(1), 64);
               }),
               "consumed_ <= end"));
  CHECK(Breaks(BrokenInvariant([&] { receiver.Receive(job.context(1), 192); }), "limit <= total()"));
  MessageSender sender(1, kKey, spans, /*overwritten=*/false);
  CHECK(Breaks(BrokenInvariant([&] { sender.Advance(job.context(0), 192); }), "ready <= total()"));
}

TEST_CASE("A PE that is twice in its group") {
  Job job;
  float value = 1;
  CollectiveArguments arguments;
  arguments.key = kKey;
  arguments.group = {0, 0};
  arguments.types = {ElementType::kF32};
  arguments.operands = {reinterpret_cast<const char*>(&value)};
  arguments.results = {reinterpret_cast<char*>(&value)};
  arguments.bytes = {sizeof(value)};
  CHECK(Breaks(BrokenInvariant([&] { MakeMessageOperation(&job.context(0), CollectiveArguments(arguments)); }),
               "pe != context_->pe"));
}

TEST_CASE("A member that comes twice to a meeting, and members that disagree about the group") {
  InProcessMeeting meeting(2, 0);
  const auto nothing = [](const std::vector<MemberBuffers>&) { return InProcessPlan(); };
  meeting.Arrive(0, {}, nothing);
  CHECK(Breaks(BrokenInvariant([&] { meeting.Arrive(0, {}, nothing); }), "HasArrived(index) == false"));
  InProcessMeetings meetings;
  meetings.Join(kKey, {0, 1}, 0);
  CHECK(Breaks(BrokenInvariant([&] { meetings.Join(kKey, {0, 1, 2}, 0); }), "meeting->members() == group.size()"));
}

}  // namespace
}  // namespace xla_shmem::testing
