// The runtime of this process: its segment, the heaps of the job, and what each local PE needs to run collectives.
//
// Coming up takes two steps, because every process must know whether all others can take part before any module is
// rewritten:
//   1. CreateSegment, before the backend exists; the outcome is published through JAX's key-value store (bootstrap.py);
//   2. Connect, once the devices of the job are known. It maps the segments of the other processes on this host.
// There is one Runtime a process and it is never destroyed: XLA's threads may be inside it until the very end. All
// errors are sentences for the user.
#ifndef XLA_SHMEM_RUNTIME_RUNTIME_H_
#define XLA_SHMEM_RUNTIME_RUNTIME_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "xla_patch/runtime/execution_counter.h"
#include "xla_patch/runtime/observe/observer.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/progress_engine.h"
#include "xla_patch/thunks/cpu/local_pes.h"

namespace xla_shmem {

struct JobLayout {
  int processes = 1;
  std::vector<int> process_of_pe;       // PEs of a process are consecutive
  std::vector<int64_t> device_of_pe;    // global device ids, as XLA's FFI reports them
  std::vector<bool> process_reachable;  // by shared memory: on this host
  int64_t topology_fingerprint = 0;
};

struct RuntimeOptions {
  std::chrono::microseconds spin{100};
  std::chrono::nanoseconds deadline{std::chrono::seconds(60)};
  shm::SingleCopy single_copy = shm::SingleCopy::kAuto;
};

class Runtime {
 public:
  static Runtime& Get();

  // Creates this process's segment of `bytes`; removes stale ones of dead jobs first. False with `error` if it cannot.
  // Its name goes when all have attached, at the latest when this process exits.
  bool CreateSegment(const std::string& job_key_hex, int process, size_t bytes, std::string* error);
  // What is noted of the collectives; to be called before Connect, or nothing is. Returns what does not work as asked.
  std::vector<std::string> StartObserver(const observe::ObserverOptions& options, const std::vector<int>& processes,
                                         const std::vector<int>& local_pes);
  // Maps the others. Called once; later calls return true at once.
  bool Connect(const JobLayout& layout, const RuntimeOptions& options, std::string* error);

  bool connected() const { return connected_.load(std::memory_order_acquire); }
  // Called (from any thread, without locks held) when an executable is loaded before Connect; returns "" or an error.
  void SetConnectHook(std::function<std::string()> hook) { connect_hook_ = std::move(hook); }
  std::string EnsureConnected();
  // Why the job has failed, "" if it has not.
  std::string failure() const { return connected() ? engine_->failure() : ""; }

  int64_t topology_fingerprint() const { return layout_.topology_fingerprint; }
  // The local PE of a device, or nullptr if it is not one of this process.
  const PeContext* ContextOfDevice(int64_t device_id) const;
  shm::ProgressEngine& engine() { return *engine_; }
  ExecutionCounter& executions() { return executions_; }
  observe::Observer& observer() { return observer_; }

 private:
  Runtime() = default;
  void UnlinkSegment();
  void CloseObserver();

  std::mutex mutex_;
  std::atomic<bool> connected_{false};
  std::function<std::string()> connect_hook_;
  shm::JobKey job_key_{};
  int process_ = 0;
  std::unique_ptr<shm::Segment> segment_;  // until Connect moves it into heap_
  shm::Segment* own_segment_ = nullptr;
  pid_t creator_ = 0;  // of own_segment_
  JobLayout layout_;
  std::unique_ptr<shm::Heap> heap_;
  std::unique_ptr<shm::ProgressEngine> engine_;
  std::unique_ptr<LocalPes> pes_;
  std::unordered_map<int64_t, const PeContext*> context_of_device_;
  ExecutionCounter executions_;
  observe::Observer observer_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_RUNTIME_H_
