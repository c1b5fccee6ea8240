// Drives operations that could not finish where they were started.
//
// One thread at a time polls the pending operations: busily until none has moved for `spin`, then asleep on the
// process's doorbell. When an operation finishes, that thread hands the polling, and what else has finished, to another
// one before it runs the completion, because a completion may run any amount of the user's program (XLA continues right
// where a future is set), and may block there until other completions have run (in a rendezvous of gloo with the other
// devices of this process). So everything keeps moving however long a completion takes; threads are started when none
// is free.
#ifndef XLA_SHMEM_SHM_PROGRESS_ENGINE_H_
#define XLA_SHMEM_SHM_PROGRESS_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/operation.h"

namespace xla_shmem::shm {

class ProgressEngine {
 public:
  using Clock = std::chrono::steady_clock;
  // Empty string: success. Called once, on an engine thread, with no lock held.
  using Completion = std::function<void(const std::string& error)>;

  ProgressEngine(Heap* heap, std::chrono::microseconds spin, std::chrono::nanoseconds deadline);
  // Fails what is pending, and what its completions still submit ("the process is shutting down"), and joins the
  // threads. Not to be called from a completion.
  ~ProgressEngine();

  // Polls `operation` here until it has not moved for `spin`, ten times as long at most. True if it finished. False,
  // `error` empty: it has to be submitted.
  bool TryInline(Operation& operation, std::string* error);
  void Submit(std::unique_ptr<Operation> operation, Completion completion);

  // Records a failure, tells the other processes, and returns the text every later operation fails with.
  std::string Fail(const std::string& why);
  // What everything fails with, "" as long as nothing has failed.
  std::string failure();

 private:
  struct Pending {
    std::unique_ptr<Operation> operation;
    Completion completion;
    Clock::time_point deadline;
    std::string error;
  };

  // Keeps the first failure and returns it. Called with mutex_ held.
  const std::string& SetFailure(const std::string& why);
  void ThreadMain();
  // Sees to it that a thread other than the caller's looks for work. Called with mutex_ held.
  void SummonThread();
  // Takes the first of `finished_`, sees to it that the rest has a thread, and completes it. Called and left with
  // `lock` held.
  void RunOneCompletion(std::unique_lock<std::mutex>& lock);
  // Polls until something finished or shutdown; returns what finished. Called and left with `lock` held.
  std::vector<Pending> PollUntilSomethingFinished(std::unique_lock<std::mutex>& lock);
  // One pass over `pending_`: moves finished entries to `finished`, notes in `moved_` whether any got further. True if
  // any finished.
  bool PollOnce(std::vector<Pending>* finished);
  void FailAll(const std::string& why, std::vector<Pending>* finished);
  // At most every 100 ms: fails everything if another process gave up, or if something pending can never finish.
  bool CheckForTrouble(std::vector<Pending>* finished);
  // Why something pending can never finish: past its deadline, or waiting for a process that has exited. Empty
  // otherwise.
  std::string Trouble(Clock::time_point now) const;
  void SleepOnDoorbell(std::vector<Pending>* finished);

  Heap* const heap_;
  const std::chrono::microseconds spin_;
  const std::chrono::nanoseconds deadline_;
  const int busy_turns_;  // of a wait, before it gives way to others

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Pending> arrivals_;  // guarded by mutex_
  std::deque<Pending> finished_;   // guarded by mutex_; to be completed
  std::vector<std::thread> threads_;
  int idle_threads_ = 0;
  bool thread_starting_ = false;
  bool polling_ = false;  // some thread owns pending_
  bool stopping_ = false;
  std::string failure_;
  std::atomic<bool> failed_{false};  // failure_ is set

  // Owned by the polling thread.
  std::vector<Pending> pending_;
  bool moved_ = false;
  Clock::time_point next_check_ = Clock::now();
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_PROGRESS_ENGINE_H_
