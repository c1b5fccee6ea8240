// A receiver that cannot read its sender's memory, although it has advertised that it does.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/collective_permute.h"
#include "xla_patch/thunks/cpu/mailboxes.h"

namespace xla_shmem::testing {
namespace {

constexpr MessageKey kKey{11, 1};
constexpr size_t kBytes = 200000 / 64 * 64;

// A sender by hand: it posts an address that is not mapped, is refused, and sends the message through slots.
std::string SendAfterRefusal(const PeContext& context, const std::vector<char>& message) {
  const Mailbox mailbox = context.mailboxes->Claim(1, kKey);
  *reinterpret_cast<uint64_t*>(mailbox.data) = 16;  // an address that is not mapped
  context.mailboxes->Post(1, mailbox, kKey, kBytes, kBytes, MailboxProtocol::kCrossMemoryRead);
  while (mailbox.entry->taken.load() == 0) usleep(100);
  if (mailbox.entry->taken.load() != kRefused) return "the receiver did not refuse";
  context.mailboxes->Free(mailbox);
  if (context.mailboxes->IsReadBy(1)) return "the receiver still advertises that it reads";
  SendChannel channel;
  while (!channel.Open(context, 1, kKey)) usleep(100);
  for (size_t at = 0; at < kBytes; at += channel.slot_bytes()) {
    char* slot;
    while ((slot = channel.FreeSlot()) == nullptr) usleep(10);
    memcpy(slot, message.data() + at, std::min(channel.slot_bytes(), kBytes - at));
    channel.Signal(context);
  }
  return "";
}

TEST_CASE("A message whose memory cannot be read is refused, granted slots, and arrives through them") {
  const shm::JobKey key = RandomJobKey();
  JobOptions options;
  options.single_copy = shm::SingleCopy::kAlways;
  ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    Job job(options, HeapOfProcesses(group, key, rank, 2, Job::HeapBytes(options)));
    group.Meet();
    std::vector<char> message(kBytes);
    for (size_t i = 0; i < kBytes; ++i) message[i] = static_cast<char>(i * 7 + i / 256);
    std::string verdict;
    if (rank == 0) {
      verdict = SendAfterRefusal(job.context(0), message);
    } else {
      std::vector<char> result(kBytes);
      PermuteArguments arguments{kKey, "refused", 0, -1, {result.data()}, {result.data()}, {kBytes}};
      verdict = job.Finish(std::make_unique<PermuteOperation>(&job.context(1), arguments));
      if (verdict.empty() && result != message) verdict = "wrong bytes";
    }
    group.Meet();
    return verdict;
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

}  // namespace
}  // namespace xla_shmem::testing
