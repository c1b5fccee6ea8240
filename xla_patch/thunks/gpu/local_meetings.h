// Meetings of a process's host threads around the first run of a collective.
//
// A kernel of one GPU may wait for a kernel that another thread of this process has not launched. On the way to a first
// launch the driver may allocate memory or load code, and such a call may wait until GPUs are idle. So around the first
// run all threads meet: before it, so that no kernel waits while another thread still prepares the program, and behind
// it, so that none goes on to such calls before all have launched. XLA does the same for NCCL (collective_thunk.cc,
// FirstCallRendezvous).
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
  enum class Place { kBefore, kBehind };
  // A thread that waits asks this about every 100 ms. An error ends its wait. `missing`: PEs that have not come.
  using OnWait = std::function<Status(std::chrono::nanoseconds waited, const std::vector<int>& missing)>;

  // Whether the threads have met behind the collective's first run.
  bool IsOver(uint64_t operation, int pe);

  // Returns when the threads of all `members`, PEs of this process, have called this for the collective, or at once if
  // they have met there before. `pe`: of this thread. An error is that of `on_wait`.
  Status Meet(uint64_t operation, Place place, int pe, const std::vector<int>& members, const OnWait& on_wait);

 private:
  using Key = std::tuple<uint64_t, int, Place>;  // operation, PE

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::set<int>> came_;  // by the first member
  std::set<Key> over_;                 // for each member
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_LOCAL_MEETINGS_H_
