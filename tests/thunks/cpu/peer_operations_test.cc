// Operations that have other ids on other PEs.
#include "xla_patch/thunks/cpu/peer_operations.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/thunks/cpu/group_transfers.h"
#include "tests/thunks/cpu/job.h"
#include "tests/thunks/cpu/ragged_transfer.h"
#include "tests/thunks/cpu/traffic.h"

namespace xla_shmem::testing {
namespace {

constexpr int kPes = 3;
constexpr uint64_t kOperation = 0x123456789a;
constexpr uint64_t kOfAll = 0x55;
const std::vector<int> kGroup = {0, 1, 2};

TEST_CASE("A key is looked for under the id of its PE, the second message of an operation too") {
  PeerOperations operations;
  CHECK(operations.KeyOf(1, {7, 3}) == MessageKey{7, 3});
  operations.Add({{1, 7, 70}});
  operations.Add({{2, 7, 71}, {1, 8, 80}});
  CHECK(operations.KeyOf(1, {7, 3}) == MessageKey{70, 3});
  CHECK(operations.KeyOf(2, {7, 3}) == MessageKey{71, 3});
  CHECK(operations.KeyOf(1, {8, 3}) == MessageKey{80, 3});
  CHECK(operations.KeyOf(2, {8, 3}) == MessageKey{8, 3});
  CHECK(operations.KeyOf(0, {7, 3}) == MessageKey{7, 3});
  CHECK(operations.KeyOf(1, SecondMessage({7, 3})) == SecondMessage({70, 3}));
}

// Tells all PEs what the others call the operation.
void AddCopies(PeerOperations* operations) {
  std::vector<PeerOperation> ids;
  for (int pe = 0; pe < kPes; ++pe) {
    for (int other = 0; other < kPes; ++other) {
      if (other != pe) ids.push_back({other, InCopy(kOperation, pe), InCopy(kOperation, other)});
    }
  }
  operations->Add(ids);
}

using Make = std::function<std::unique_ptr<Transfer>(MessageKey key, int pe)>;

// Every PE runs a copy of the operation, three times. The ids become known when the first runs wait for one another. In
// between is an operation that has one id.
void CheckCopies(shm::SingleCopy single_copy, const Make& make) {
  JobOptions options;
  options.n_pes = kPes;
  options.single_copy = single_copy;
  Job job(options);
  std::mutex mutex;
  std::vector<std::string> errors;
  std::thread pairing([&] {
    usleep(20'000);
    AddCopies(&job.peer_operations());
    shm::Ring(job.heap().OwnBell());
  });
  job.RunPes([&](int pe) {
    for (uint64_t run = 0; run < 3; ++run) {
      for (const uint64_t operation : {InCopy(kOperation, pe), kOfAll}) {
        const std::unique_ptr<Transfer> transfer = make({operation, run}, pe);
        std::string error = job.Finish(transfer->Begin(job.context(pe)));
        if (error.empty()) error = transfer->Verdict();
        const std::lock_guard<std::mutex> lock(mutex);
        if (!error.empty()) errors.push_back(error);
      }
    }
  });
  pairing.join();
  CHECK(errors == std::vector<std::string>());
}

TEST_CASE("Operations of copies meet by every protocol, though they began before the ids were known") {
  for (const auto single_copy : {shm::SingleCopy::kAlways, shm::SingleCopy::kOff}) {
    CAPTURE(single_copy);
    // Eager; by cross-memory reads or through slots; through slots alone, if in place.
    for (const size_t bytes : {size_t{100}, size_t{12'000}, size_t{300'000}}) {
      CAPTURE(bytes);
      for (const Placement placement : {Placement::kApart, Placement::kInPlace}) {
        CheckCopies(single_copy, [&](MessageKey key, int pe) {
          return std::make_unique<PermuteTransfer>(key, pe, std::vector<int>{1, 2, 0}, std::vector<size_t>{bytes},
                                                   placement);
        });
        // The larger ones by two-shot, with a second message.
        CheckCopies(single_copy, [&](MessageKey key, int pe) {
          const Reduction reduction{ReductionKind::kSum, kGroup, {ElementType::kF32}, {bytes / 4}};
          return std::make_unique<AllReduceTransfer>(key, pe, reduction, placement);
        });
      }
      CheckCopies(single_copy, [&](MessageKey key, int pe) {
        const Reduction reduction{ReductionKind::kSum, kGroup, {ElementType::kF32}, {bytes / 4}};
        return std::make_unique<ReduceScatterTransfer>(key, pe, reduction, Placement::kApart);
      });
      for (const CollectiveOp op : MovingGroupOps()) {
        CheckCopies(single_copy, [&](MessageKey key, int pe) {
          return MakeMovingTransfer(op, key, pe, kGroup, {bytes}, Placement::kApart);
        });
      }
    }
    // Always with a second message.
    CheckCopies(single_copy, [&](MessageKey key, int pe) {
      return std::make_unique<RaggedTransfer>(key, pe, kGroup, RaggedRows{1000, 40}, Placement::kApart);
    });
  }
}

}  // namespace
}  // namespace xla_shmem::testing
