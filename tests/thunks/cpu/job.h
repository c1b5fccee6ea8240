// A job for tests: a heap, and the contexts of the local PEs. In a job of one process every PE is a thread.
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_JOB_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_JOB_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/shm/pe_threads.h"
#include "xla_patch/shm/heap.h"
#include "xla_patch/shm/progress_engine.h"
#include "xla_patch/thunks/cpu/local_pes.h"

namespace xla_shmem::testing {

struct JobOptions {
  int n_pes = 2;
  size_t arena_bytes = 4 << 20;  // of each PE's slots
  size_t reserve_bytes = 1 << 20;
  std::chrono::microseconds spin{20};
  std::chrono::milliseconds deadline{30000};
  shm::SingleCopy single_copy = shm::SingleCopy::kAuto;
  size_t llc_share = 0;     // 0: from the system's caches
  bool in_process = false;  // else PEs of one process exchange messages, as PEs of several do
};

class Job {
 public:
  // All PEs are local.
  explicit Job(const JobOptions& options = {});
  // The local PEs of `heap`, which was created with HeapBytes(options).
  Job(const JobOptions& options, std::unique_ptr<shm::Heap> heap);
  ~Job();

  static size_t HeapBytes(const JobOptions& options);

  int n_pes() const { return heap_->n_pes(); }
  shm::Heap& heap() { return *heap_; }
  shm::ProgressEngine& engine() { return *engine_; }
  const PeContext& context(int pe) const { return *pes_->context(pe); }
  PeerOperations& peer_operations() { return pes_->peer_operations(); }

  // Runs `body(pe)` on the thread of every PE, and waits for all.
  void RunPes(const std::function<void(int pe)>& body);

  // Polls inline, then submits, like an FFI handler. `done` gets the status.
  void Start(std::unique_ptr<Operation> operation, shm::ProgressEngine::Completion done);
  // Starts the operation and waits for it. Returns "" or the error.
  std::string Finish(std::unique_ptr<Operation> operation);

  // The number of free blocks of `bytes` in the PE's arena, to detect leaks.
  size_t FreeBlocks(int pe, size_t bytes);
  size_t FreeReserveBlocks(int pe, size_t bytes);

 private:
  std::unique_ptr<shm::Heap> heap_;
  std::unique_ptr<shm::ProgressEngine> engine_;
  std::unique_ptr<LocalPes> pes_;
  std::unique_ptr<PeThreads> threads_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_JOB_H_
