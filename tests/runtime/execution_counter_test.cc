#include "xla_patch/runtime/execution_counter.h"

#include <cstdint>
#include <utility>

#include "doctest/doctest.h"

namespace xla_shmem {
namespace {

constexpr uint64_t kOperation = 7;

// Number of an execution that ends at once: run, and place within the run.
std::pair<uint32_t, uint32_t> Count(ExecutionCounter& counter, uint64_t executable, int64_t run_id, int pe = 0) {
  const auto counted = counter.Begin(kOperation, pe, executable, run_id);
  REQUIRE(counted.ok());
  return {static_cast<uint32_t>(counted->number >> 32), static_cast<uint32_t>(counted->number)};
}

using Number = std::pair<uint32_t, uint32_t>;

TEST_CASE("runs are numbered by the distances of their ids, executions within a run from 0") {
  ExecutionCounter counter;
  CHECK(Count(counter, 1, 1000) == Number(0, 0));
  CHECK(Count(counter, 1, 1000) == Number(0, 1));
  CHECK(Count(counter, 1, 1003) == Number(3, 0));
  CHECK(Count(counter, 1, 1002) == Number(2, 0));
  CHECK(Count(counter, 1, 1003) == Number(3, 1));
  CHECK(Count(counter, 1, 1003, /*pe=*/1) == Number(0, 0));
}

TEST_CASE("a new executable of the program goes on behind the last run") {
  ExecutionCounter counter;
  CHECK(Count(counter, 1, 50) == Number(0, 0));
  CHECK(Count(counter, 1, 51) == Number(1, 0));
  CHECK(Count(counter, 2, 9) == Number(2, 0));
}

TEST_CASE("a run that comes late does not take the numbers of the runs before it again") {
  ExecutionCounter counter;
  CHECK(Count(counter, 1, 100) == Number(0, 0));
  CHECK(Count(counter, 1, 105) == Number(5, 0));
  CHECK(Count(counter, 1, 104) == Number(4, 0));
  CHECK(Count(counter, 2, 9) == Number(6, 0));
}

TEST_CASE("the numbers go on from 0 behind 2^32 - 1, and a late run from before that is no new one") {
  constexpr int64_t kHalf = int64_t{1} << 31;
  ExecutionCounter counter;
  CHECK(Count(counter, 1, 0) == Number(0, 0));
  // In steps of less than 2^31.
  CHECK(Count(counter, 1, kHalf - 1) == Number(0x7fffffff, 0));
  CHECK(Count(counter, 1, 2 * kHalf - 2) == Number(0xfffffffe, 0));
  CHECK(Count(counter, 1, 2 * kHalf + 1) == Number(1, 0));
  CHECK(Count(counter, 1, 2 * kHalf - 1) == Number(0xffffffff, 0));
  CHECK(Count(counter, 2, 9) == Number(2, 0));
}

TEST_CASE("a second run that begins before the first has ended is refused") {
  ExecutionCounter counter;
  auto first = counter.Begin(kOperation, 0, 1, 10);
  REQUIRE(first.ok());
  SUBCASE("of the same executable") { CHECK_FALSE(counter.Begin(kOperation, 0, 1, 11).ok()); }
  SUBCASE("of the program compiled twice") { CHECK_FALSE(counter.Begin(kOperation, 0, 2, 10).ok()); }
  SUBCASE("but not the same run, nor another PE or operation") {
    CHECK(counter.Begin(kOperation, 0, 1, 10).ok());
    CHECK(counter.Begin(kOperation, 1, 1, 11).ok());
    CHECK(counter.Begin(kOperation + 1, 0, 1, 11).ok());
  }
  SUBCASE("nor one behind its end") {
    first->running.End();
    first->running.End();
    CHECK(counter.Begin(kOperation, 0, 1, 11).ok());
  }
}

TEST_CASE("numbers alone are those of executions, and no run is refused") {
  ExecutionCounter counter;
  CHECK(counter.Number(kOperation, 0, 1, 10) == 0);
  CHECK(counter.Number(kOperation, 0, 1, 10) == 1);
  CHECK(counter.Number(kOperation, 0, 1, 12) == uint64_t{2} << 32);
  CHECK(counter.Number(kOperation, 1, 1, 12) == 0);
  CHECK(counter.Number(kOperation, 0, 2, 500) == uint64_t{3} << 32);
}

TEST_CASE("an execution that goes out of scope has ended") {
  ExecutionCounter counter;
  {
    const auto first = counter.Begin(kOperation, 0, 1, 10);
  }
  auto second = counter.Begin(kOperation, 0, 1, 11);
  REQUIRE(second.ok());
  ExecutionCounter::Running moved(std::move(second->running));
  second->running.End();  // no longer its own
  const auto third = counter.Begin(kOperation, 0, 1, 12);
  REQUIRE_FALSE(third.ok());
  CHECK(third.message().find("two runs of its program are under way at once on PE 0") == 0);
}

}  // namespace
}  // namespace xla_shmem
