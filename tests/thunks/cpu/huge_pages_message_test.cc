// A receiver that reads out of huge pages only: how a message comes follows from where it lies.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "xla_patch/shm/huge_pages.h"
#include "xla_patch/thunks/cpu/collective_permute.h"
#include "xla_patch/thunks/cpu/mailboxes.h"

namespace xla_shmem::testing {
namespace {

constexpr MessageKey kKey{12, 1};
constexpr size_t kBytes = 3 * shm::kHugePageBytes;
constexpr size_t kMapped = kBytes + shm::kHugePageBytes;

char ByteAt(size_t i) { return static_cast<char>(i * 7 + i / 4096); }

// The whole of the message in memory that is to have huge pages, or not; unmapped with the process.
char* Message(int advice) {
  void* mapped = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  madvise(mapped, kMapped, advice);
  const auto address = reinterpret_cast<uintptr_t>(mapped) + shm::kHugePageBytes - 1;
  auto* message = reinterpret_cast<char*>(address / shm::kHugePageBytes * shm::kHugePageBytes);
  for (size_t i = 0; i < kBytes; ++i) message[i] = ByteAt(i);
  return message;
}

std::string SendAndReceive(Job& job, ProcessGroup& group, int rank, int advice) {
  const PeContext& context = job.context(rank);
  if (rank == 0) {
    char* message = Message(advice);
    if (message == nullptr) return "no memory";
    group.word(0) = shm::BytesOnHugePages(message, kBytes) == kBytes ? 1 : 2;
    group.Meet();
    PermuteArguments arguments{kKey, "sent", -1, 1, {message}, {message}, {kBytes}};
    std::vector<char> zeros(kBytes);
    arguments.results = {zeros.data()};
    return job.Finish(std::make_unique<PermuteOperation>(&context, arguments));
  }
  group.Meet();
  // Before our operation comes, and grants: the sender has said where the message lies, or is waiting for the grant.
  MailKind kind = MailKind::kEager;
  bool posted = false;
  for (int turn = 0; turn < (group.word(0) == 1 ? 50000 : 500) && !posted; ++turn) {
    usleep(100);
    posted = context.mail->Find(0, kKey, kBytes, &kind).entry != nullptr;
  }
  if (posted != (group.word(0) == 1)) return posted ? "offered small pages" : "did not offer huge pages";
  if (posted && kind != MailKind::kCrossMemoryRead) return "offered in another way";
  std::vector<char> result(kBytes);
  PermuteArguments arguments{kKey, "received", 0, -1, {result.data()}, {result.data()}, {kBytes}};
  std::string verdict = job.Finish(std::make_unique<PermuteOperation>(&context, arguments));
  for (size_t i = 0; verdict.empty() && i < kBytes; ++i) {
    if (result[i] != ByteAt(i)) verdict = "byte " + std::to_string(i) + " is wrong";
  }
  return verdict;
}

TEST_CASE("Messages on huge pages are read where they lie, those on small ones are staged") {
  for (const int advice : {MADV_HUGEPAGE, MADV_NOHUGEPAGE}) {
    CAPTURE(advice);
    const shm::JobKey key = RandomJobKey();
    JobOptions options;
    options.single_copy = shm::SingleCopy::kHugePages;
    ProcessGroup group(2);
    group.Start([&](int rank) -> std::string {
      Job job(options, HeapOfProcesses(group, key, rank, 2, Job::HeapBytes(options)));
      group.Meet();
      std::string verdict = SendAndReceive(job, group, rank, advice);
      group.Meet();
      return verdict;
    });
    CHECK(group.Join() == std::vector<std::string>{"", ""});
  }
}

}  // namespace
}  // namespace xla_shmem::testing
