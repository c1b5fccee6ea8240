#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/traffic.h"
#include "xla_patch/thunks/cpu/collectives.h"
#include "xla_patch/thunks/cpu/message_sender.h"

namespace xla_shmem::testing {
namespace {

constexpr size_t kSizes[] = {0, 1, 63, 64, 65, 4095, 65536, kSlotBytes - 1, kSlotBytes, kSlotBytes + 1, 3 << 20};
constexpr Placement kPlacements[] = {Placement::kApart, Placement::kInPlace, Placement::kShifted};

std::vector<int> Ring(int n) {
  std::vector<int> target_of(n);
  for (int pe = 0; pe < n; ++pe) target_of[pe] = (pe + 1) % n;
  return target_of;
}

// Runs one permute on all PEs of `job` and checks every result.
void CheckPermute(Job& job, const std::vector<int>& target_of, const std::vector<size_t>& bytes, Placement placement) {
  static uint64_t operation = 0;
  const MessageKey key{++operation, 1};
  job.RunPes([&](int pe) {
    PermuteTransfer transfer(key, pe, target_of, bytes, placement);
    CHECK(job.Finish(transfer.Begin(job.context(pe))) == "");
    CHECK(transfer.Verdict() == "");
  });
}

TEST_CASE("A ring shifts every size, apart, in place and overlapping") {
  for (int n : {2, 3}) {
    Job job({n});
    for (size_t bytes : kSizes) {
      for (Placement placement : kPlacements) {
        CAPTURE(n);
        CAPTURE(bytes);
        CheckPermute(job, Ring(n), {bytes}, placement);
      }
    }
  }
}

TEST_CASE("A ring of one to eight PEs shifts and returns every block to its pool") {
  for (int n = 1; n <= 8; ++n) {
    Job job({n});
    const size_t before = job.FreeBlocks(0, 1 << 20);
    CheckPermute(job, Ring(n), {kSlotBytes * 5 + 77, 3}, Placement::kInPlace);
    CheckPermute(job, Ring(n), {100, 3000}, Placement::kApart);
    CHECK(job.FreeBlocks(0, 1 << 20) == before);
  }
}

TEST_CASE("A PE without a source gets zeros, one without a target only receives") {
  Job job({4});
  for (Placement placement : kPlacements) {
    for (size_t bytes : {size_t{1}, size_t{70000}, size_t{600000}}) {
      CheckPermute(job, {1, 2, 3, -1}, {bytes}, placement);     // chain
      CheckPermute(job, {-1, -1, -1, -1}, {bytes}, placement);  // no edge
      CheckPermute(job, {3, -1, -1, -1}, {bytes}, placement);   // one edge
    }
  }
}

TEST_CASE("Edges from a PE to itself are copies, alone and with other edges") {
  Job job({4});
  for (Placement placement : kPlacements) {
    CheckPermute(job, {0, 1, 2, 3}, {5000}, placement);
    CheckPermute(job, {0, 2, 1, -1}, {kSlotBytes + 5}, placement);
  }
}

TEST_CASE("One permute may have several rings and chains") {
  Job job({8});
  for (Placement placement : kPlacements) CheckPermute(job, {1, 0, 3, 4, 2, 6, 7, -1}, {300001}, placement);
}

TEST_CASE("Operands of mixed sizes travel as one message, empty ones included") {
  Job job({3});
  for (Placement placement : kPlacements) {
    CheckPermute(job, Ring(3), {1, 0, 64, 300000, 65, 0, 7}, placement);
    CheckPermute(job, {1, 2, -1}, {0, 0, 5}, placement);
    CheckPermute(job, Ring(3), {0, 0}, placement);
    CheckPermute(job, Ring(3), {}, placement);
    CheckPermute(job, Ring(3), std::vector<size_t>(500, 17), placement);
  }
}

TEST_CASE("Result i may be the buffer of operand j") {
  Job job({2});
  for (size_t bytes : {size_t{8}, size_t{4096}, size_t{400000}}) {
    CheckPermute(job, {1, 0}, {bytes, bytes, bytes}, Placement::kRotated);
    CheckPermute(job, {0, 1}, {bytes, bytes, bytes}, Placement::kRotated);
    CheckPermute(job, {1, -1}, {bytes, bytes, bytes}, Placement::kRotated);
  }
}

TEST_CASE("One buffer may be two operands") {
  Job job({2});
  RunPes(2, [&](int pe) {
    std::vector<char> operand(5000, static_cast<char>('a' + pe)), other(5000);
    CollectiveArguments arguments;
    arguments.op = CollectiveOp::kCollectivePermute;
    arguments.key = {99, 1};
    arguments.source = arguments.target = 1 - pe;
    arguments.operands = {operand.data(), operand.data()};
    arguments.results = {operand.data(), other.data()};
    arguments.bytes = {5000, 5000};
    CHECK(job.Finish(MakeMessageOperation(&job.context(pe), std::move(arguments))) == "");
    CHECK(operand == std::vector<char>(5000, static_cast<char>('a' + 1 - pe)));
    CHECK(other == operand);
  });
}

TEST_CASE("The same operation can run again under the next execution, thousands of times") {
  Job job({2});
  RunPes(2, [&](int pe) {
    for (uint64_t execution = 1; execution <= 3000; ++execution) {
      PermuteTransfer transfer({7, execution}, pe, {1, 0}, {40 + execution % 300}, Placement::kInPlace);
      const std::string error = job.Finish(transfer.Begin(job.context(pe)));
      if (error != "") FAIL(error);
      if (transfer.Verdict() != "") FAIL("execution " << execution << ": " << transfer.Verdict());
    }
  });
}

TEST_CASE("The error for a target that has not arrived names operation, PE and execution") {
  JobOptions options;
  options.deadline = std::chrono::milliseconds(200);
  Job job(options);
  PermuteTransfer transfer({5, 3}, 0, {1, -1}, {9000}, Placement::kApart);
  const std::string error = job.Finish(transfer.Begin(job.context(0)));
  CHECK(error ==
        "collective-permute permute.5 (9000 bytes) on PE 0, run 1, execution 4 in it; not arrived at this operation: "
        "PE 1; gave up after the deadline of 0.2 s (XLA_SHMEM_DEADLINE); PE 1 is in this process: XLA may have too few "
        "threads for what runs at once; set NPROC=64 and PJRT_NPROC=64");
}

TEST_CASE("An error distinguishes a target that has not arrived from one that has arrived and does not read") {
  JobOptions options;
  options.deadline = std::chrono::milliseconds(200);
  options.single_copy = shm::SingleCopy::kAlways;
  const size_t bytes = 64 << 10;
  static_assert(bytes >= kMinCrossMemoryReadBytes);
  {
    Job job(options);
    PermuteTransfer transfer({5, 3}, 0, {1, -1}, {bytes}, Placement::kApart);
    const std::string error = job.Finish(transfer.Begin(job.context(0)));
    CHECK(error.find("execution 4 in it; not arrived at this operation: PE 1; gave up after") != std::string::npos);
  }
  Job job(options);
  PermuteTransfer here({5, 3}, 0, {1, 0}, {bytes}, Placement::kApart),
      there({5, 3}, 1, {1, 0}, {bytes}, Placement::kApart);
  const auto stopped = there.Begin(job.context(1));
  CHECK(!stopped->Poll());  // it posts its addresses and stops
  const std::string error = job.Finish(here.Begin(job.context(0)));
  CHECK(error.find("execution 4 in it; PE 1 has taken 0 of " + std::to_string(bytes)) != std::string::npos);
  CHECK(error.find("not arrived") == std::string::npos);
}

TEST_CASE("A small message needs no grant from its target") {
  Job job({2});
  PermuteTransfer sender({5, 3}, 0, {1, -1}, {1000}, Placement::kApart),
      receiver({5, 3}, 1, {1, -1}, {1000}, Placement::kApart);
  CHECK(sender.Begin(job.context(0))->Poll());
  CHECK(receiver.Begin(job.context(1))->Poll());
  CHECK(sender.Verdict() == "");
  CHECK(receiver.Verdict() == "");
}

TEST_CASE("The error for a source that stops half way names it with the bytes sent and expected") {
  JobOptions options;
  options.deadline = std::chrono::milliseconds(200);
  options.single_copy = shm::SingleCopy::kOff;
  Job job(options);
  PermuteTransfer receiver({5, 3}, 0, {-1, 0}, {6 * kSlotBytes}, Placement::kApart),
      sender({5, 3}, 1, {-1, 0}, {6 * kSlotBytes}, Placement::kApart);
  std::unique_ptr<Operation> receiving = receiver.Begin(job.context(0));
  CHECK_FALSE(receiving->Poll());
  CHECK_FALSE(sender.Begin(job.context(1))->Poll());  // puts four chunks and is not polled again
  const std::string error = job.Finish(std::move(receiving));
  INFO(error);
  CHECK(error.find("PE 1 has sent " + std::to_string(4 * kSlotBytes) + " of " + std::to_string(6 * kSlotBytes) +
                   " bytes; gave up") != std::string::npos);
}

TEST_CASE("Blocks of a failed operation are never given to another one") {
  JobOptions options;
  options.deadline = std::chrono::milliseconds(100);
  Job job(options);
  const size_t before = job.FreeBlocks(0, 1024);
  PermuteTransfer transfer({5, 3}, 0, {-1, 0}, {512}, Placement::kApart);
  CHECK(job.Finish(transfer.Begin(job.context(0))) != "");
  CHECK(job.FreeBlocks(0, 1024) < before);
}

TEST_CASE("A failed operation does not write to its results afterwards") {
  JobOptions options;
  options.deadline = std::chrono::milliseconds(100);
  Job job(options);
  PermuteTransfer receiver({5, 3}, 0, {-1, 0}, {512}, Placement::kApart);
  CHECK(job.Finish(receiver.Begin(job.context(0))) != "");
  // The source arrives too late. It still finds the grant and may put into the block, which no operation uses again.
  PermuteTransfer sender({5, 3}, 1, {-1, 0}, {512}, Placement::kApart);
  CHECK(sender.Begin(job.context(1))->Poll());
}

}  // namespace
}  // namespace xla_shmem::testing
