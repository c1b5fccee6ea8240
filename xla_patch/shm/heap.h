// The symmetric heaps of all PEs of a job, as this process sees them.
//
// Every PE owns `bytes()` bytes; an object at offset o of one heap is "the same object" at offset o of every other. A
// process may own several PEs (one a device), so a symmetric address is recognised by the local heap it lies in. Heaps
// of processes on other hosts are not mapped: `Reaches(pe)` is false and nothing may be sent there.
#ifndef XLA_SHMEM_SHM_HEAP_H_
#define XLA_SHMEM_SHM_HEAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "xla_patch/shm/futex.h"
#include "xla_patch/shm/segment.h"

namespace xla_shmem::shm {

class Heap {
 public:
  // `segments[p]` is process p's segment, or null when p is not on this host; `process_of_pe[pe]` says where each PE
  // lives (PEs of one process in ascending order). `own_process` indexes both. Returns nullptr and fills `error` if a
  // heap would be too small.
  static std::unique_ptr<Heap> Create(std::vector<std::unique_ptr<Segment>> segments, std::vector<int> process_of_pe,
                                      int own_process, std::string* error);

  int n_pes() const { return static_cast<int>(homes_.size()); }
  size_t bytes() const { return bytes_; }
  bool IsLocal(int pe) const { return homes_[pe].process == own_process_; }
  bool Reaches(int pe) const { return homes_[pe].base != nullptr; }
  int ProcessOf(int pe) const { return homes_[pe].process; }
  const std::vector<int>& local_pes() const { return local_pes_; }
  // PEs of the job on this host.
  int ReachablePes() const {
    return static_cast<int>(
        std::count_if(homes_.begin(), homes_.end(), [](const Home& home) { return home.base != nullptr; }));
  }
  // Processes of the job on this host, this one included.
  int ReachableProcesses() const {
    return static_cast<int>(
        std::count_if(segments_.begin(), segments_.end(), [](const auto& s) { return s != nullptr; }));
  }

  // Whether these are more than the processors that they may run on. A process that has been given one processor of
  // several, as launchers do, shares it with none of the others.
  bool IsOversubscribed() const;

  char* base(int pe) const { return homes_[pe].base; }
  // Address on `pe` of the symmetric object at `address`, which lies in the heap of a local PE.
  char* Translate(const void* address, int pe) const { return homes_[pe].base + OffsetOf(address); }
  size_t OffsetOf(const void* address) const;

  // Takes `bytes` at the same offset of every heap. Collective: all PEs ask for the same sizes in the same order.
  // Returns the offset, or SIZE_MAX when the heap is exhausted. Never freed: the runtime allocates once
  // (docs/protocol.md, "One arena").
  size_t Allocate(size_t bytes);
  size_t Used() const { return allocated_; }

  Doorbell& BellOf(int pe) const { return homes_[pe].segment->header().doorbell; }
  Doorbell& OwnBell() const { return segments_[own_process_]->header().doorbell; }

  // Publishes that this process gives up, and why, and wakes everybody. Only the first call counts.
  void Fail(const std::string& why);
  // Why the job is broken: the words of the first process that gave up. Empty while all is well.
  std::string FailureText() const;
  const SegmentHeader& HeaderOf(int pe) const { return homes_[pe].segment->header(); }
  // False when the process of `pe` has exited. Reads /proc: some microseconds.
  bool Alive(int pe) const { return homes_[pe].segment == nullptr || homes_[pe].segment->OwnerAlive(); }

 private:
  struct Home {
    int process;
    Segment* segment;
    char* base;
  };
  Heap() = default;

  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Home> homes_;
  std::vector<int> local_pes_;
  int own_process_ = 0;
  char* own_payload_ = nullptr;
  size_t bytes_ = 0;
  std::mutex allocate_mutex_;
  size_t allocated_ = 0;
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_HEAP_H_
