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
#include <map>
#include <mutex>
#include <set>
#include <tuple>

namespace xla_shmem {

class LocalMeetings {
 public:
  // A meeting needs no one: a thread that waited so long goes on alone.
  static constexpr std::chrono::seconds kPatience{10};
  explicit LocalMeetings(std::chrono::milliseconds patience = kPatience) : patience_(patience) {}

  enum class Place { kBefore, kBehind };
  // Returns when `threads` have called this for the collective, or at once if they have met there before.
  // `operation`, `first_pe`: of the collective, and the first of its PEs in this process.
  void Meet(uint64_t operation, int first_pe, Place place, int threads);

 private:
  using Key = std::tuple<uint64_t, int, Place>;

  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, int> waiting_;  // threads that have come; none: they have not met
  std::set<Key> over_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_GPU_LOCAL_MEETINGS_H_
