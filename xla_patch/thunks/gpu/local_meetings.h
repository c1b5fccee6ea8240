// Meetings of a process's host threads in runs of programs (docs/protocol.md, "Several GPUs in a process"): those of
// all GPUs of a program in each run, as in XLA (gpu_executable.cc, RendezvousAfterInitialization), and those of a
// collective before and behind its first run. For NCCL XLA lets its members meet before it (collective_thunk.cc,
// FirstCallRendezvous). That is not enough where they are in several processes: a call of one GPU may wait for a kernel
// of another group.
#ifndef XLA_SHMEM_THUNKS_GPU_LOCAL_MEETINGS_H_
#define XLA_SHMEM_THUNKS_GPU_LOCAL_MEETINGS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "xla_patch/types/status.h"

namespace xla_shmem {

class LocalMeetings {
 public:
  enum class Place { kBeforeRun, kBeforeFirst, kBehindFirst };
  struct Meeting {
    Place place;
    uint64_t operation = 0;  // of the collective, or of the program's call
    int64_t run = 0;         // only of kBeforeRun, which is once in it
  };
  // A thread that waits asks this about every 100 ms. An error ends its wait. `missing`: PEs that have not come.
  using OnWait = std::function<Status(std::chrono::nanoseconds waited, const std::vector<int>& missing)>;

  // Whether the threads have met behind the collective's first run.
  bool IsOver(uint64_t operation, int pe);

  // Returns when the threads of all `members`, PEs of this process, have called this for the meeting, or at once if
  // they have met there before. `pe`: of this thread. An error is that of `on_wait`.
  Status Meet(const Meeting& meeting, int pe, const std::vector<int>& members, const OnWait& on_wait);

  // Meetings that are not over, and those that are and will not be forgotten, by member.
  size_t remembered();

 private:
  using Key = std::tuple<Place, uint64_t, int64_t, int>;  // of a meeting, and a PE

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::set<int>> came_;  // by the first member
  std::set<Key> over_;                 // for each member
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_LOCAL_MEETINGS_H_
