// Ends a process whose NVSHMEM start does not end: the start has no time limit of its own, and a thread inside it
// cannot be stopped. It waits for ever if another process of the world has failed or died.
#ifndef XLA_SHMEM_NVSHMEM_GPU_START_LIMIT_H_
#define XLA_SHMEM_NVSHMEM_GPU_START_LIMIT_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

class StartLimit {
 public:
  enum class Event {
    kLate,   // once, after `patience`
    kStuck,  // the process must end: another process has failed, or the time is kLimit times `patience`
  };
  // By default the reason is printed; with kStuck the process then exits with status 70.
  using OnEvent = std::function<void(Event event, const std::string& reason)>;
  // How the start of a process ended; none while it lasts. Called from another thread.
  using ReadOutcome = std::function<std::optional<Status>(int process)>;
  static constexpr int kLimit = 3;

  // Before the start of a world of processes 0 to `processes` - 1.
  StartLimit(int processes, std::chrono::milliseconds patience, ReadOutcome outcome, OnEvent on_event = {});
  // After the start, whether it succeeded or not.
  ~StartLimit();
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;

 private:
  void Watch();
  // True if the start ended within that time.
  bool EndsWithin(std::chrono::milliseconds time);
  // Which processes have failed; if none has, which have not finished.
  std::string Describe(bool* has_failed) const;

  const int processes_;
  const std::chrono::milliseconds patience_;
  const ReadOutcome outcome_;
  const OnEvent on_event_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_START_LIMIT_H_
