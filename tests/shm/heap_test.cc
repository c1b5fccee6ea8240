#include "xla_patch/shm/heap.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/shm/test_heap.h"
#include "tests/types/value_of.h"

namespace xla_shmem::shm {
namespace {

using testing::HeapOfOneProcess;
using testing::ProcessGroup;
using testing::RandomJobKey;
using testing::ValueOf;

constexpr size_t kBytes = 1 << 20;

TEST_CASE("The heaps of local PEs do not overlap and are page aligned") {
  const auto heap = HeapOfOneProcess(3, kBytes);
  CHECK(heap->n_pes() == 3);
  CHECK(heap->bytes() == kBytes);
  for (int pe = 0; pe < 3; ++pe) {
    CHECK(reinterpret_cast<uintptr_t>(heap->base(pe)) % kPageBytes == 0);
    if (pe > 0) CHECK(heap->base(pe) == heap->base(pe - 1) + kBytes);
  }
}

TEST_CASE("A symmetric address of any local heap translates to the same offset of every PE") {
  const auto heap = HeapOfOneProcess(4, kBytes);
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      CHECK(heap->Translate(heap->base(from) + 12345, to) == heap->base(to) + 12345);
      CHECK(heap->Translate(heap->base(from), to) == heap->base(to));
      CHECK(heap->Translate(heap->base(from) + kBytes - 1, to) == heap->base(to) + kBytes - 1);
    }
  }
}

TEST_CASE("Allocations are aligned to cache lines, disjoint, and end with the heap") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  const size_t first = heap->Allocate(1), second = heap->Allocate(65), third = heap->Allocate(0);
  CHECK(first == 0);
  CHECK(second == 64);
  CHECK(third == 192);
  CHECK(heap->Allocate(kBytes) == SIZE_MAX);
  CHECK(heap->Allocate(SIZE_MAX) == SIZE_MAX);
  CHECK(heap->Allocate(kBytes - 192) == 192);
  CHECK(heap->Allocate(1) == SIZE_MAX);
}

TEST_CASE("A heap that is too small is refused with the option in the error") {
  std::vector<std::unique_ptr<Segment>> segments;
  segments.push_back(ValueOf(Segment::Create(RandomJobKey(), 0, kPageBytes + (256 << 10))));
  const std::string error = Heap::Create(std::move(segments), {0, 0}, 0).message();
  CHECK(error.find("131072 bytes a PE") != std::string::npos);
  CHECK(error.find("XLA_SHMEM_HEAP_SIZE") != std::string::npos);
}

TEST_CASE("PEs of processes that are not mapped are not reachable, and all others use the smallest heap size") {
  const JobKey key = RandomJobKey();
  std::vector<std::unique_ptr<Segment>> segments(3);
  segments[0] = ValueOf(Segment::Create(key, 0, kPageBytes + 4 * kBytes));
  segments[2] = ValueOf(Segment::Create(key, 2, kPageBytes + 2 * kBytes));
  const auto heap = ValueOf(Heap::Create(std::move(segments), {0, 0, 1, 2, 2}, 0));
  CHECK(heap->bytes() == kBytes);
  CHECK(heap->local_pes() == std::vector<int>{0, 1});
  CHECK(heap->Reaches(1));
  CHECK_FALSE(heap->Reaches(2));
  CHECK(heap->Alive(2));
  CHECK(heap->Reaches(4));
  CHECK(heap->ProcessOf(4) == 2);
  CHECK_FALSE(heap->IsLocal(4));
  CHECK(heap->base(4) == heap->base(3) + kBytes);
}

TEST_CASE(
    "A job is oversubscribed if it has more PEs here than processors, but not for a process of one PE with its own "
    "processor") {
  cpu_set_t given;
  REQUIRE(sched_getaffinity(0, sizeof(given), &given) == 0);
  const int processors = CPU_COUNT(&given);
  for (const int processes : {processors, processors + 1}) {
    const JobKey key = RandomJobKey();
    ProcessGroup group(processes);
    group.Start([&](int rank) -> std::string {
      const auto heap = testing::HeapOfProcesses(group, key, rank, processes, kBytes);
      if (processors > 1 && heap->IsOversubscribed() != (processes > processors)) return "wrong with all processors";
      cpu_set_t one;
      CPU_ZERO(&one);
      for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
        if (CPU_ISSET(i, &given)) CPU_SET(i, &one);
      }
      if (sched_setaffinity(0, sizeof(one), &one) != 0) return "could not be bound";
      const bool expected = processes > sysconf(_SC_NPROCESSORS_ONLN);
      return heap->IsOversubscribed() == expected ? "" : "wrong with one processor";
    });
    CHECK(group.Join() == std::vector<std::string>(static_cast<size_t>(processes)));
  }
}

TEST_CASE("A process with more PEs than processors is oversubscribed by itself") {
  cpu_set_t given;
  REQUIRE(sched_getaffinity(0, sizeof(given), &given) == 0);
  CHECK(HeapOfOneProcess(CPU_COUNT(&given) + 1, kBytes)->IsOversubscribed());
  CHECK_FALSE(HeapOfOneProcess(1, kBytes)->IsOversubscribed());
}

TEST_CASE("All processes read the first failure, truncated to the size of the header") {
  const auto heap = HeapOfOneProcess(1, kBytes);
  CHECK(heap->JobStatus().ok());
  const std::string why(3 * kFailureTextBytes, 'w');
  heap->Fail(why);
  heap->Fail("something else");
  CHECK(heap->JobStatus().message() == why.substr(0, kFailureTextBytes - 1));
}

TEST_CASE("Processes see each other's memory, failures and exits") {
  const JobKey key = RandomJobKey();
  ProcessGroup group(2);
  group.Start([&](int rank) -> std::string {
    const auto heap = testing::HeapOfProcesses(group, key, rank, 2, kBytes);
    heap->base(1 - rank)[100] = static_cast<char>('A' + rank);
    group.Meet();
    if (heap->base(rank)[100] != 'A' + 1 - rank) return "peer's store not seen";
    if (!heap->Alive(1 - rank)) return "peer taken for dead";
    group.Meet();
    if (rank == 1) {
      heap->Fail("had enough");
      return "";
    }
    while (heap->Alive(1)) sched_yield();
    return heap->JobStatus().message();
  });
  CHECK(group.Join(1) == "");
  CHECK(group.Join(0) == "process 1 gave up: had enough");
  CHECK(testing::SegmentsOf(key).empty());
}

}  // namespace
}  // namespace xla_shmem::shm
