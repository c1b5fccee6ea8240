#include "xla_patch/thunks/cpu/message_receiver.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/thunks/cpu/job.h"
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
  const MessageReceiver::View first = receiver.Look(context);
  REQUIRE(first.end > 0);
  REQUIRE(first.end < kBytes);
  CHECK(receiver.WaitsForSender(context));
  receiver.Consume(context, first.end);
  CHECK(receiver.WaitsForSender(context));
  REQUIRE(receiver.Look(context).end == kBytes);
  CHECK_FALSE(receiver.WaitsForSender(context));
  CHECK(sender.Advance(job.context(0), kBytes));
  CHECK(sender.done());
  receiver.Consume(context, kBytes);
  CHECK_FALSE(receiver.WaitsForSender(context));
}

}  // namespace
}  // namespace xla_shmem::testing
