// The runtime of this process: its segment, the heaps of the job, and the contexts of the local PEs.
//
// It starts in two steps, because every process must know whether all others can take part before any module is
// rewritten:
//   1. CreateSegment, before the backend exists. Python publishes the outcome in JAX's key-value store.
//   2. Connect, once the devices of the job are known. It maps the segments of the other processes on this host.
// A process has one Runtime, which is never destroyed, because XLA's threads may use it until the process exits.
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
#include "xla_patch/runtime/marked_collectives.h"
#include "xla_patch/runtime/observe/observer.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/process_identity.h"
#include "xla_patch/shm/progress_engine.h"
#include "xla_patch/thunks/cpu/local_pes.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

struct JobLayout {
  int processes = 1;
  std::vector<int> process_of_pe;         // PEs of a process are consecutive
  std::vector<int64_t> device_of_pe;      // global device ids, as XLA's FFI reports them
  std::vector<bool> process_reachable;    // by shared memory: on this host
  std::vector<shm::JobKey> segment_keys;  // of each process; used for those that are reachable
  int64_t topology_fingerprint = 0;
};

struct RuntimeOptions {
  std::chrono::microseconds spin{100};
  shm::WaitLimits limits;
  shm::SingleCopy single_copy = shm::SingleCopy::kAuto;
  // Whether XLA must go on in the thread that started a collective: MPI accepts calls of one thread only. Its modules
  // must have been compiled with PassOptions::one_at_a_time.
  bool finish_in_caller = false;
};

class Runtime {
 public:
  static Runtime& Get();

  // Removes the segments of dead jobs, then creates this process's segment of `bytes`. Its name is removed when all
  // processes have attached, at the latest when this process exits. Permits `readers` to read this process's memory.
  Status CreateSegment(const std::string& key_hex, int process, size_t bytes, shm::Readers readers);
  // Starts to record collectives; to be called before Connect. Returns one sentence for each part that does not work.
  std::vector<std::string> StartObserver(const observe::ObserverOptions& options, const std::vector<int>& processes,
                                         const std::vector<int>& local_pes);
  // Maps the segments of the other processes. Calls after a successful one do nothing. Once this process has attached,
  // an error is final, and later calls return it again.
  Status Connect(const JobLayout& layout, const RuntimeOptions& options);

  // The program of this process has come to its end, for the records. Collectives may still be under way.
  void BeginEnd() { observer_.MarkAtEnd(); }
  // Says to the other processes that no collective of this one is under way, and that none will begin. Also before
  // Connect: the others may have connected.
  void MarkAtEnd();
  // The processes of the job on this host, without this one, that have neither ended nor been stopped for good.
  struct Peers {
    int running = 0;  // and not at their end
    int at_end = 0;
    int lost = 0;  // exited or stopped by a signal, so that JAX's barrier at shutdown waits for them in vain
  };
  Peers CountPeers() const;
  // Sleeps until another process asks what this one does. Returns the number of the question, or 0 once
  // StopQuestions has been called, or before Connect. One thread calls it.
  uint32_t AwaitQuestion();
  void Answer(uint32_t question, const std::string& text);
  void StopQuestions();

  bool connected() const { return connected_.load(std::memory_order_acquire); }
  // `hook` is called, on any thread and without locks held, when an executable is loaded before Connect.
  void SetConnectHook(std::function<Status()> hook) { connect_hook_ = std::move(hook); }
  Status EnsureConnected();
  // The error of the job; ok if it has not failed.
  Status status() const { return connected() ? engine_->status() : Status(); }

  int64_t topology_fingerprint() const { return layout_.topology_fingerprint; }
  bool finish_in_caller() const { return finish_in_caller_; }
  // The context of a device's PE, or nullptr if the device does not belong to this process.
  const PeContext* ContextOfDevice(int64_t device_id) const;
  shm::ProgressEngine& engine() { return *engine_; }
  ExecutionCounter& executions() { return executions_; }
  MarkedCollectives& marked() { return *marked_; }
  observe::Observer& observer() { return observer_; }

 private:
  Runtime() = default;
  // The segments of the processes on this host, by process; null for the others.
  Result<std::vector<std::unique_ptr<shm::Segment>>> AttachSegments(const JobLayout& layout);
  Status ConnectTo(std::vector<std::unique_ptr<shm::Segment>> segments, const JobLayout& layout,
                   const RuntimeOptions& options);
  void UnlinkSegment();
  void CloseObserver(int exit_code);

  std::mutex mutex_;
  std::atomic<bool> connected_{false};
  std::function<Status()> connect_hook_;
  shm::JobKey segment_key_{};
  int process_ = 0;
  std::unique_ptr<shm::Segment> segment_;  // until Connect moves it into heap_
  pid_t creator_ = 0;                      // of this process's segment; 0: there is none
  Status connect_failure_;
  JobLayout layout_;
  bool finish_in_caller_ = false;
  std::unique_ptr<shm::Heap> heap_;
  std::unique_ptr<shm::ProgressEngine> engine_;
  std::unique_ptr<MarkedCollectives> marked_;
  std::unique_ptr<LocalPes> pes_;
  uint32_t last_question_ = 0;
  std::atomic<bool> stops_questions_{false};
  std::unordered_map<int64_t, const PeContext*> context_of_device_;
  ExecutionCounter executions_;
  observe::Observer observer_;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_RUNTIME_RUNTIME_H_
