// Finds the processes that keep an operation from finishing.
//
// A process that is waited for need not be late: it may itself wait for another. So each process publishes for which
// PEs its pending operations wait, and when it last looked at them. A process that waits for long follows these words
// from process to process. Those that wait and still look are not late. What remains is late: processes that have
// exited or come to their end, are stopped, have not looked for long, or have no pending operation.
#ifndef XLA_SHMEM_SHM_LATE_PROCESSES_H_
#define XLA_SHMEM_SHM_LATE_PROCESSES_H_

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/shm/heap.h"

namespace xla_shmem::shm {

// Publishes that the operations of this process wait for `pes`, and that it has just looked. `in`: the one that has
// waited longest.
void PublishWaits(const Heap& heap, const std::set<int>& pes, std::string_view in);
// Publishes that no operation of this process is pending.
void PublishNoWaits(const Heap& heap);
// Publishes that the owner of the segment begins no further collective.
void PublishAtEnd(SegmentHeader& own);

enum class Lateness : uint8_t {
  kNone,     // it waits and looks
  kGone,     // it has exited
  kAtEnd,    // its program has come to its end
  kStopped,  // by a signal
  kTraced,   // by a debugger
  kElsewhere,
  kAsleep,  // it waits in a collective, but its threads do not run
};
const char* Words(Lateness lateness);

struct LateProcess {
  int process;
  int pe;  // the first of its PEs that is waited for
  Lateness lateness;
};

// The late processes, by PE, among those that `pes` are part of or wait for. Empty if all of them wait for one another.
// `patience`: how long ago a process that is not late may have looked.
std::vector<LateProcess> FindLateProcesses(const Heap& heap, const std::set<int>& pes,
                                           std::chrono::nanoseconds patience);

// "process 2 (PE 2)".
std::string NameProcess(int process, int pe);
// "; process 2 (PE 2) is stopped", and so on.
std::string Describe(const std::vector<LateProcess>& late);
// "; process 1 (PE 1) is in all-gather jit_f/…" for each process of `pes` but this one, as they have published it.
std::string DescribeWaits(const Heap& heap, const std::set<int>& pes);

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_LATE_PROCESSES_H_
