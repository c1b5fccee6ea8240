// Notices transfers that do not finish, and turns them into an error: a GPU stream cannot time out by itself.
//
// A host thread asks an event behind each transfer whether it has been reached. One that is late fails the job: the
// reason is kept for everything that comes later and printed, and a trap ends all streams of the context, so that no
// result computed from what did not arrive can be seen. If the streams do not even end then, the process does.
#ifndef XLA_SHMEM_NVSHMEM_GPU_WATCHDOG_H_
#define XLA_SHMEM_NVSHMEM_GPU_WATCHDOG_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"

namespace xla_shmem::gpu {

// An event that goes back to its device's pool with the last reference.
using EventRef = std::shared_ptr<void>;
EventRef MarkShared(Device& device, CudaStream stream);

class Watchdog {
 public:
  // What is waited for, counters included: asked only when a transfer is late.
  using Describe = std::function<std::string()>;
  // Called once with the reason when the job fails, on the watchdog's thread; then again with the same reason if the
  // streams have not ended `kGrace` later. By default prints and, the second time, exits with status 70.
  using OnFailure = std::function<void(const std::string& reason, bool stuck)>;
  static constexpr std::chrono::seconds kGrace{10};

  Watchdog(Device* device, std::chrono::nanoseconds deadline, OnFailure on_failure = {},
           std::chrono::milliseconds grace = kGrace);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // `begun`: reached when the GPU comes to the transfer; only then does its deadline run, since a host may enqueue
  // hours of compute ahead of it.
  void Watch(EventRef begun, std::vector<EventRef> events, Describe describe);
  // From now on also looks at what CUDA graphs do: `busy` is 1 while an operation of one is under way, `ended` counts
  // those that have ended. The same two words at every call; `name` of an operation that was captured, for the error.
  void WatchGraphs(const uint64_t* busy, const uint64_t* ended, const std::string& name);
  // "" or why the job has failed, for good.
  std::string failure() const;
  // A late transfer of this PE is the job's failure; so is what another thread found out.
  void Fail(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    EventRef begun;  // null once seen reached
    std::vector<EventRef> events;
    Clock::time_point deadline;
    Describe describe;
  };

  void Run();
  // True while an event of the entry has not been reached.
  bool Running(const Entry& entry, std::string* error) const;
  std::string FindFailure(std::list<Entry>& entries);
  std::string FindGraphFailure();
  void End(const std::string& reason, std::list<Entry>& entries);

  Device* const device_;
  const std::chrono::nanoseconds deadline_;
  const OnFailure on_failure_;
  const std::chrono::milliseconds grace_;
  CudaStream trap_stream_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Entry> entries_;  // newest at the back
  std::string failure_;
  const uint64_t* graph_busy_ = nullptr;
  const uint64_t* graph_ended_ = nullptr;
  std::vector<std::string> graph_names_;
  bool stop_ = false;
  // Of the watchdog's thread.
  uint64_t ended_seen_ = 0;
  Clock::time_point graph_deadline_;
  Clock::time_point next_graph_look_;
  std::thread thread_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_WATCHDOG_H_
