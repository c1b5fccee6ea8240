// Turns transfers that do not finish into an error: a GPU stream cannot time out by itself.
//
// A host thread queries an event behind each transfer. A late transfer fails the job: the reason is printed and kept
// for later calls, and a trap ends all streams of the context, so that no program can read a result computed from data
// that did not arrive. If the streams do not end after the trap, the process exits.
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
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// An event that returns to its device's pool with the last reference.
using EventRef = std::shared_ptr<void>;
EventRef MarkShared(Device& device, CudaStream stream);

class Watchdog {
 public:
  // Describes a late transfer: what it waits for, with the counters seen and expected.
  using Describe = std::function<std::string()>;
  // Called once with the reason when the job fails, on the watchdog's thread, and again with the same reason if the
  // streams have not ended `kGrace` later. By default the first call prints and the second exits with status 70.
  using OnFailure = std::function<void(const std::string& reason, bool stuck)>;
  static constexpr std::chrono::seconds kGrace{10};

  Watchdog(Device* device, std::chrono::nanoseconds deadline, OnFailure on_failure = {},
           std::chrono::milliseconds grace = kGrace);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // `begun`: reached when the GPU comes to the transfer. The deadline starts then, because a host may enqueue hours of
  // compute ahead of it.
  void Watch(EventRef begun, std::vector<EventRef> events, Describe describe);
  // From now on also watches CUDA graphs. `busy` is 1 while an operation of a graph runs, `ended` counts those that
  // have ended; both words must be the same at every call. `name`: a captured operation, for the error.
  void WatchGraphs(const uint64_t* busy, const uint64_t* ended, const std::string& name);
  // Ok, or why the job has failed. A failed job stays failed.
  Status Check() const;
  // Fails the job.
  void Fail(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    EventRef begun;  // null once it was seen reached
    std::vector<EventRef> events;
    Clock::time_point deadline;
    Describe describe;
  };

  void Run();
  // kDone once all events of the entry are reached, kFailed if one has failed.
  Device::Progress ProgressOf(const Entry& entry) const;
  Status CheckTransfers(std::list<Entry>& entries);
  Status CheckGraphs();
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
  // Only the watchdog's thread uses these.
  uint64_t ended_seen_ = 0;
  Clock::time_point graph_deadline_;
  Clock::time_point next_graph_check_;
  std::thread thread_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_WATCHDOG_H_
