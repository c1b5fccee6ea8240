// The symmetric heaps of all PEs of a job, as this process maps them.
//
// Every PE owns `bytes()` bytes. A symmetric object has the same offset in every heap. A process may own several PEs
// (one a device), so the local heap that contains a symmetric address tells the PE. Heaps of processes on other hosts
// are not mapped: `Reaches(pe)` is false, and no message may be sent there.
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
#include "xla_patch/types/status.h"

namespace xla_shmem::shm {

class Heap {
 public:
  // `segments[p]` is the segment of process p, or null if p is not on this host. `process_of_pe[pe]` is the process of
  // each PE. Fails if a heap would be too small.
  static Result<std::unique_ptr<Heap>> Create(std::vector<std::unique_ptr<Segment>> segments,
                                              const std::vector<int>& process_of_pe, int own_process);

  int n_pes() const { return static_cast<int>(locations_.size()); }
  size_t bytes() const { return bytes_; }
  bool IsLocal(int pe) const { return locations_[pe].process == own_process_; }
  bool Reaches(int pe) const { return locations_[pe].base != nullptr; }
  int ProcessOf(int pe) const { return locations_[pe].process; }
  const std::vector<int>& local_pes() const { return local_pes_; }
  // PEs of the job on this host.
  int ReachablePes() const {
    return static_cast<int>(std::count_if(locations_.begin(), locations_.end(),
                                          [](const Location& location) { return location.base != nullptr; }));
  }
  // Whether these PEs are more than the processors that this process may run on: each has a thread that may wait. A
  // process that a launcher has bound to one processor of several shares it with no other process of the job.
  bool IsOversubscribed() const;

  char* base(int pe) const { return locations_[pe].base; }
  // Address on `pe` of the symmetric object at `address`, which lies in the heap of a local PE.
  char* Translate(const void* address, int pe) const { return locations_[pe].base + OffsetOf(address); }
  size_t OffsetOf(const void* address) const;

  // Allocates `bytes` at the same offset of every heap. Collective: all PEs allocate the same sizes in the same order.
  // Returns the offset, or SIZE_MAX if the heap is exhausted. Never freed: the runtime allocates once
  // (docs/protocol.md, "One arena").
  size_t Allocate(size_t bytes);
  size_t Used() const { return allocated_; }

  Doorbell& BellOf(int pe) const { return locations_[pe].segment->header().doorbell; }
  Doorbell& OwnBell() const { return segments_[own_process_]->header().doorbell; }

  // Publishes that this process has failed, and why, and wakes all processes. Only the first call of either counts.
  void Fail(const std::string& why);
  // Publishes that this process gives up because another has failed, so that nobody takes what lies in its memory from
  // now on for a message.
  void FollowFailure();
  // The error of the first process that has published a reason; ok if none has.
  Status JobStatus() const;
  SegmentHeader& HeaderOf(int pe) const { return locations_[pe].segment->header(); }
  SegmentHeader& OwnHeader() const { return segments_[own_process_]->header(); }
  // The state of the process of `pe`; kRuns on other hosts. Reads /proc: some microseconds.
  ProcessState StateOf(int pe) const {
    return locations_[pe].segment == nullptr ? ProcessState::kRuns : locations_[pe].segment->OwnerState();
  }
  bool Alive(int pe) const { return StateOf(pe) != ProcessState::kGone; }

 private:
  struct Location {
    int process;
    Segment* segment;
    char* base;
  };
  Heap() = default;

  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Location> locations_;
  std::vector<int> local_pes_;
  int own_process_ = 0;
  char* own_payload_ = nullptr;
  size_t bytes_ = 0;
  std::mutex allocate_mutex_;
  size_t allocated_ = 0;
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_HEAP_H_
