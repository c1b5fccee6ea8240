// A receiver that cannot read its sender's memory, although it has advertised that it does.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "xla_patch/thunks/cpu/blocks.h"
#include "xla_patch/thunks/cpu/channel.h"
#include "xla_patch/thunks/cpu/collectives.h"
#include "xla_patch/thunks/cpu/mailboxes.h"
#include "xla_patch/thunks/cpu/message_receiver.h"
#include "xla_patch/thunks/cpu/message_sender.h"

namespace xla_shmem::testing {
namespace {

constexpr MessageKey kKey{11, 1};
constexpr size_t kBytes = 200000 / 64 * 64;

std::unique_ptr<Operation> ReceiveFromPe0(const PeContext& context, char* result, size_t bytes) {
  CollectiveArguments arguments;
  arguments.op = CollectiveOp::kCollectivePermute;
  arguments.key = kKey;
  arguments.name = "refused";
  arguments.source = 0;
  arguments.operands = {result};
  arguments.results = {result};
  arguments.bytes = {bytes};
  return MakeOperation(&context, std::move(arguments));
}

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
      verdict = job.Finish(ReceiveFromPe0(job.context(1), result.data(), kBytes));
      if (verdict.empty() && result != message) verdict = "wrong bytes";
    }
    group.Meet();
    return verdict;
  });
  CHECK(group.Join() == std::vector<std::string>{"", ""});
}

// Pages of their own, from which other processes cannot read while they are hidden.
class HidablePages {
 public:
  explicit HidablePages(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~HidablePages() { munmap(data_, bytes_); }
  HidablePages(const HidablePages&) = delete;
  HidablePages& operator=(const HidablePages&) = delete;

  char* data() const { return data_; }
  void Hide(size_t from) { mprotect(data_ + from, bytes_ - from, PROT_NONE); }
  void Show() { mprotect(data_, bytes_, PROT_READ | PROT_WRITE); }

 private:
  const size_t bytes_;
  char* const data_;
};

// More than all slots of a channel, and no multiple of a chunk.
constexpr size_t kReadBytes = 3 << 20;
constexpr size_t kLongBytes = 7 << 20;

void FillLongMessage(char* memory) {
  for (size_t i = 0; i < kLongBytes / 4; ++i) reinterpret_cast<uint32_t*>(memory)[i] = static_cast<uint32_t>(i * 13);
}

// A sender whose first kReadBytes are read, and the rest of whose memory is then refused.
std::string SendWithRefusalMidway(const PeContext& context) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto in_time = [&] { return std::chrono::steady_clock::now() < until; };
  HidablePages pages(kLongBytes);
  FillLongMessage(pages.data());
  Spans memory;
  memory.Add(pages.data(), kLongBytes);
  MessageSender message(1, kKey, memory, /*overwritten=*/false);
  while (message.taken() < kReadBytes && in_time()) message.Advance(context, kReadBytes);
  pages.Hide(kReadBytes);
  message.Advance(context, kLongBytes);
  while (context.mailboxes->IsReadBy(1) && in_time()) usleep(100);
  pages.Show();
  if (context.mailboxes->IsReadBy(1)) return "the receiver did not refuse";
  while (!message.done() && in_time()) message.Advance(context, kLongBytes);
  return message.done() ? "" : "stuck with " + std::to_string(message.taken()) + " bytes taken";
}

// `receive` gets the message of PE 0 into its argument, and returns "" or what went wrong.
template <typename Receive>
void CheckRefusalMidway(Receive receive) {
  const shm::JobKey key = RandomJobKey();
  JobOptions options;
  options.single_copy = shm::SingleCopy::kAlways;
  options.deadline = std::chrono::seconds(10);
  ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    Job job(options, HeapOfProcesses(group, key, rank, 2, Job::HeapBytes(options)));
    group.Meet();
    std::string verdict;
    if (rank == 0) {
      verdict = SendWithRefusalMidway(job.context(0));
    } else {
      std::vector<char> expected(kLongBytes), result(kLongBytes);
      FillLongMessage(expected.data());
      verdict = receive(&job, result.data());
      if (verdict.empty() && result != expected) verdict = "wrong bytes";
    }
    group.Meet();
    return verdict;
  });
  const std::vector<std::string> verdicts = group.Join();
  CHECK(verdicts[0] == "");
  CHECK(verdicts[1] == "");
}

TEST_CASE("A permute whose source is refused after its first part gets the rest through slots") {
  CheckRefusalMidway(
      [](Job* job, char* result) { return job->Finish(ReceiveFromPe0(job->context(1), result, kLongBytes)); });
}

TEST_CASE("A contribution to a reduction that is refused after its first part continues through slots") {
  CheckRefusalMidway([](Job* job, char* result) -> std::string {
    const PeContext& context = job->context(1);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    Spans memory;
    memory.Add(result, kLongBytes);
    MessageReceiver message(0, kKey, memory);
    BlockSet set;
    if (!TakeBlocks(context, kLongBytes, 1, &set)) return "no block";
    message.Grant(context, set.blocks[0], set.geometry);
    while (!message.done()) {
      const MessageReceiver::View view = message.Look(context, false);
      if (view.end > view.begin) {
        memory.CopyFrom(view.data, view.begin, view.end);
        message.Consume(context, view.end);
      } else if (std::chrono::steady_clock::now() > until) {
        return "stuck with " + std::to_string(message.consumed()) + " bytes consumed";
      }
    }
    message.Close(context);
    return "";
  });
}

}  // namespace
}  // namespace xla_shmem::testing
