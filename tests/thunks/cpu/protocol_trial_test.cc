// Collectives of two processes that try reads and slots on their own messages.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/shm/process_group.h"
#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/group_transfers.h"
#include "tests/thunks/cpu/job.h"
#include "xla_patch/thunks/cpu/protocol_choice.h"

namespace xla_shmem::testing {
namespace {

constexpr size_t kBytes = 64 << 10;

// Runs the op until there is a verdict. Returns "" or what went wrong.
std::string RunUntilVerdict(Job& job, int rank, CollectiveOp op) {
  constexpr uint64_t kMost = 2000;
  const PeContext& context = job.context(rank);
  for (uint64_t run = 0; run < kMost; ++run) {
    const MessageKey key{5, run << 32};
    const auto transfer = MakeMovingTransfer(op, key, rank, {0, 1}, {kBytes}, Placement::kApart);
    if (const std::string error = job.Finish(transfer->Begin(context)); !error.empty()) return error;
    if (const std::string error = transfer->Verdict(); !error.empty()) return error;
    // An execution that nobody measures once there is a verdict. The other process may need one more run to see it.
    if (run % 100 == 99 && !context.protocol_choice->Decide(op, kBytes, {3, 0}).is_measured) return "";
  }
  return "no verdict after " + std::to_string(kMost) + " runs";
}

TEST_CASE("Processes that share a host come to a verdict, also if only one of them receives") {
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kCollectiveBroadcast}) {
    CAPTURE(OpName(op));
    const shm::JobKey key = RandomJobKey();
    JobOptions options;
    options.single_copy = shm::SingleCopy::kAuto;
    ProcessGroup group(2);
    group.Start([&](int rank) -> std::string {
      Job job(options, HeapOfProcesses(group, key, rank, 2, Job::HeapBytes(options)));
      group.Meet();
      const std::string verdict = RunUntilVerdict(job, rank, op);
      group.Meet();
      return verdict;
    });
    CHECK(group.Join() == std::vector<std::string>{"", ""});
  }
}

}  // namespace
}  // namespace xla_shmem::testing
