// Drives operations that could not finish in the thread that started them.
//
// One thread at a time polls the pending operations. It polls until none has made progress for `spin`, then sleeps on
// the doorbell of the process. When an operation finishes, the thread first hands the polling and the other finished
// operations to another thread, and then runs the completion. The reason: a completion may run any part of the user's
// program, because XLA continues in the thread that sets a future, and it may block until other completions have run
// (in a rendezvous of gloo with the other devices of this process). A new thread starts if none is idle.
#ifndef XLA_SHMEM_SHM_PROGRESS_ENGINE_H_
#define XLA_SHMEM_SHM_PROGRESS_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/operation.h"
#include "xla_patch/shm/wait_watch.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::shm {

class ProgressEngine {
 public:
  using Clock = std::chrono::steady_clock;
  // Called once, on an engine thread, with no lock held.
  using Completion = std::function<void(const Status& status)>;

  ProgressEngine(Heap* heap, std::chrono::microseconds spin, WaitLimits limits);
  ProgressEngine(Heap* heap, std::chrono::microseconds spin, std::chrono::nanoseconds deadline)
      : ProgressEngine(heap, spin, WaitLimits{deadline}) {}
  // Fails the pending operations and those that their completions submit ("the process is shutting down"), and joins
  // the threads. Must not be called from a completion.
  ~ProgressEngine();

  // Polls `operation` in the caller's thread until it has made no progress for `spin`, for at most ten times as long.
  // Returns true if it finished, false if the caller has to submit it, and the error if the job has failed.
  Result<bool> TryInline(Operation& operation);
  // `find_fault` is called on an engine thread with no lock held, while the operation waits for long; may be empty.
  void Submit(std::unique_ptr<Operation> operation, Completion completion, FindFault find_fault = nullptr);
  // Submits `operation` and sleeps until it has finished. The caller must not be an engine thread.
  Status Finish(std::unique_ptr<Operation> operation, FindFault find_fault = nullptr);

  // Records a failure, publishes it to the other processes, and returns the error of every later operation.
  Status Fail(const std::string& why);
  // The error of every operation from now on; ok if nothing has failed.
  Status status();

 private:
  struct Pending {
    std::unique_ptr<Operation> operation;
    Completion completion;
    WaitWatch::Wait wait;
    Status status;
  };
  // Oldest first. A list, because entries move between lists and are taken out in any order.
  using Operations = std::list<Pending>;

  // Keeps the first failure and returns it. Called with mutex_ held.
  const Status& SetFailure(const std::string& why);
  // The failure of another process, which stopped `operation` here. Called without mutex_.
  Status SetFailureOfPeer(const Status& of_peer, const Operation& operation);
  void ThreadMain();
  // Polls the operation. An exception fails the job; XLA's threads must not see it.
  bool Poll(Operation& operation) noexcept;
  // Wakes or starts another thread, which looks for work. If the system gives no thread, the job fails and the result
  // is false. Called with mutex_ held.
  bool EnsureThread();
  // Fails all operations in the caller's thread, because there is no other. No thread may be polling. `lock` is held at
  // both ends.
  void FailAllHere(std::unique_lock<std::mutex>& lock);
  // Completes the first entry of `finished_`, and ensures a thread for the others. `lock` is held at both ends.
  void RunOneCompletion(std::unique_lock<std::mutex>& lock);
  // Polls until an operation finishes or the engine stops. Returns the finished operations. `lock` is held at both
  // ends.
  Operations PollUntilFinished(std::unique_lock<std::mutex>& lock);
  enum class Pass {
    kFront,  // as far as operations make progress, and some more
    kWhole,
  };
  // One pass over `pending_`, from the oldest on. Moves finished entries to `finished` and sets `made_progress_`.
  // Returns true if any finished.
  bool PollOnce(Pass pass, Operations* finished);
  // Says that this process gives up before it lets go of the operations, whose memory other processes may read.
  void FailAll(const Status& status, Operations* finished);
  // At most every 100 ms. Fails all operations if another process has failed or if a pending operation can never
  // finish. Returns true if it failed them.
  bool CheckForFailure(Operations* finished);
  // The error of a wait that this process gives up; ok if it goes on.
  Status FindFailure(Clock::time_point now);
  void SleepOnDoorbell(Operations* finished);

  Heap* const heap_;
  const std::chrono::microseconds spin_;
  const int busy_polls_;  // of a wait, before each poll yields

  std::mutex mutex_;
  std::condition_variable wake_;
  Operations arrivals_;  // guarded by mutex_
  Operations finished_;  // guarded by mutex_; their completions have not run
  std::vector<std::thread> threads_;
  int idle_threads_ = 0;
  bool thread_starting_ = false;
  bool polling_ = false;  // a thread owns pending_
  bool stopping_ = false;
  Status status_;                      // guarded by mutex_
  std::atomic<bool> failed_{false};    // status_ is an error
  std::atomic<size_t> unfinished_{0};  // submitted, and not known to be finished

  // Owned by the polling thread.
  Operations pending_;
  WaitWatch watch_;
  int passes_ = 0;
  bool made_progress_ = false;
  bool has_published_ = false;  // for whom it waits
  Clock::time_point next_check_ = Clock::now();
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_PROGRESS_ENGINE_H_
