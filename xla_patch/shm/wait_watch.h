// Decides about the waits of a process: go on, tell the user, or fail the job (docs/protocol.md, "Deadlines and
// failures").
//
// * A process that is waited for and can never come is an error: it has exited, has come to the end of its program, has
//   been stopped for long, or runs another program.
// * Any other process that does not come is late. After `late_after` a line says for whom this process waits and what
//   the late process does. It is repeated each time the wait has become twice as long.
// * A wait of `deadline` without progress is an error in any case.
//
// Of collectives of the default backend it only tells (Operation::is_of_default_backend): XLA fails them.
//
// Time counts from the last progress of an operation, and only while this process itself has looked: a process that was
// stopped or suspended has not waited.
#ifndef XLA_SHMEM_SHM_WAIT_WATCH_H_
#define XLA_SHMEM_SHM_WAIT_WATCH_H_

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/late_processes.h"
#include "xla_patch/shm/operation.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::shm {

struct WaitLimits {
  std::chrono::nanoseconds deadline = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds late_after = std::chrono::seconds(60);
  // Takes a line for the user; empty: it is printed on stderr.
  std::function<void(const std::string& line)> say = nullptr;
};

// Why an operation can never finish, although all processes that it waits for are alive; "" if it may. `is_late`: it
// has waited for `late_after`.
using FindFault = std::function<std::string(bool is_late)>;

class WaitWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // How often Check should be called.
  static constexpr std::chrono::milliseconds kInterval{100};

  // The wait of one pending operation.
  struct Wait {
    const Operation* operation;
    FindFault find_fault;
    Clock::time_point looked;  // last; at first when the operation began to wait
    std::chrono::nanoseconds time{0};
    std::chrono::nanoseconds next_fault_search{0};
    bool made_progress = false;  // since the last look
    bool searched_for_gone = false;
  };

  // `heap` must outlive the watch.
  WaitWatch(Heap* heap, WaitLimits limits);

  // Looks at all pending operations, and publishes for whom they wait. Returns why the job fails, or ok.
  Status Check(Clock::time_point now, const std::vector<Wait*>& waits);

 private:
  // Brings the times up to date.
  void Count(Clock::time_point now, const std::vector<Wait*>& waits);
  // Why the waits for our own operations fail the job, or ok.
  Status CheckOwn(const std::vector<Wait*>& waits);
  Status FindGone(const std::vector<Wait*>& waits, const std::set<int>& awaited);
  // Counts for how long the processes have been stopped that `awaited` are part of.
  Status FindStopped(const std::set<int>& awaited, const Wait& longest);
  Status PastDeadline(const Operation& operation) const;
  std::vector<LateProcess> FindLate(const Operation& operation) const;
  void TellIfLate(Clock::time_point now, const Wait& longest);
  void Tell(const Wait& longest, const std::vector<LateProcess>& late);

  // What has been asked of a late process.
  struct Question {
    int pe;
    uint32_t number;
    std::string answer;  // "": none yet
  };

  Heap* const heap_;
  const WaitLimits limits_;
  Clock::time_point last_;
  std::chrono::nanoseconds elapsed_{0};              // since the last check, as far as it counts
  bool was_away_ = false;                            // this process has not run for a while
  bool polls_once_more_ = false;                     // before it gives up
  std::map<int, std::chrono::nanoseconds> stopped_;  // by PE of the processes that are stopped now
  std::chrono::nanoseconds tell_at_;                 // when the next line is due
  std::vector<Question> questions_;                  // for the next line
  Clock::time_point asked_at_;
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_WAIT_WATCH_H_
