// What the C++ memory model allows threads to see.
//
// Atomic operations: each location keeps its last stores. A load takes any store that the model allows: not older than
// one that happened before it, or than one that a load which happened before it has seen, or than what sequentially
// consistent operations and fences order. This is the operational model of tsan11 (Lidbury and Donaldson, "Dynamic race
// detection for C++11", 2017); a store is never seen before it is executed, so out-of-thin-air values and load
// buffering do not occur. A store is seen by all after `staleness`, as caches are coherent.
//
// Other accesses to shared memory: two of them to the same 16 bytes, one a write, must be ordered by happens-before.
#ifndef XLA_SHMEM_TESTS_SIMULATOR_MEMORY_MODEL_H_
#define XLA_SHMEM_TESTS_SIMULATOR_MEMORY_MODEL_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/simulator/scheduler.h"

namespace xla_shmem::simulator {

class MemoryModel {
 public:
  static MemoryModel& Get();
  struct Options {
    double fresh_chance = 0.7;      // that a load takes the newest store though it might take an older one
    int64_t staleness_ns = 20'000;  // a store is seen by all after this
  };
  void Configure(const Options& options) { options_ = options; }

  uint64_t Load(const void* address, size_t bytes, std::memory_order order);
  void Store(void* address, size_t bytes, uint64_t value, std::memory_order order);
  // Replaces the newest value by `change(value)`, and returns the former.
  uint64_t Modify(void* address, size_t bytes, const std::function<uint64_t(uint64_t)>& change,
                  std::memory_order order);
  // False, with the value found in `expected`, if it is another.
  bool CompareExchange(void* address, size_t bytes, uint64_t* expected, uint64_t desired, std::memory_order order,
                       std::memory_order failure);
  void Fence(std::memory_order order);
  // The newest value, as the system sees it.
  uint64_t Newest(const void* address, size_t bytes) const;

  // Plain accesses to shared memory. Fails the run at a race.
  void Read(const void* address, size_t bytes);
  void Write(void* address, size_t bytes);

  // The addresses have no history any more: their memory was given back or is new.
  void Forget(const void* address, size_t bytes);

  // For locks, threads and other things that order all that happened before: `clock` is theirs.
  static void Acquire(const VectorClock& clock);
  static void Release(VectorClock* clock);

 private:
  struct Record {
    uint64_t value;
    int thread = -1;  // -1: there from the start
    uint32_t clock = 0;
    int64_t time = 0;
    uint64_t ordered = 0;  // number of this store among sequentially consistent operations, 0: not one
    VectorClock released;
    std::vector<std::pair<int, uint32_t>> readers;
  };
  struct Location {
    std::vector<Record> records;  // oldest first
  };
  struct Line {
    int writer = -1;
    uint32_t written = 0;
    std::vector<std::pair<int, uint32_t>> readers;
  };
  static constexpr size_t kRecords = 6, kLineBytes = 16, kPageBytes = 4096;

  Location& Find(const void* address, size_t bytes);
  bool MustSee(const Record& record, const Sight& sight, int thread, std::memory_order order) const;
  void Append(Location& location, void* address, size_t bytes, uint64_t value, std::memory_order order,
              const VectorClock* continued);
  void Take(Record& record, std::memory_order order);
  template <typename Visit>
  void ForEachLine(const void* address, size_t bytes, Visit visit);

  Options options_;
  VectorClock all_fences_;
  uint64_t ordered_ = 0;
  // By page, so that freed memory is forgotten fast.
  std::unordered_map<uintptr_t, std::unordered_map<uintptr_t, Location>> locations_;
  std::unordered_map<uintptr_t, std::unique_ptr<std::array<Line, kPageBytes / kLineBytes>>> lines_;
};

}  // namespace xla_shmem::simulator

#endif  // XLA_SHMEM_TESTS_SIMULATOR_MEMORY_MODEL_H_
