// A whole job inside one test process: every PE is a thread, over a real shared-memory segment.
#ifndef XLA_SHMEM_TESTS_THUNKS_JOB_H_
#define XLA_SHMEM_TESTS_THUNKS_JOB_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/host/heap.h"
#include "xla_patch/nvshmem/host/host_api.h"
#include "xla_patch/nvshmem/host/progress_engine.h"
#include "xla_patch/thunks/channel.h"

namespace xla_shmem::testing {

struct JobOptions {
  int n_pes = 2;
  size_t heap_bytes = 16 << 20;  // of each PE
  size_t arena_bytes = 4 << 20;  // of each PE's slots
  size_t reserve_bytes = 1 << 20;
  std::chrono::microseconds spin{20};
  std::chrono::milliseconds deadline{30000};
};

host::JobKey RandomJobKey();

class Job {
 public:
  explicit Job(const JobOptions& options = {});
  ~Job();

  int n_pes() const { return heap_->n_pes(); }
  host::Heap& heap() { return *heap_; }
  host::ProgressEngine& engine() { return *engine_; }
  const PeContext& context(int pe) const { return contexts_[pe]; }

  // Runs `body(pe)` on one thread a PE and joins them.
  void Run(const std::function<void(int pe)>& body);

  // Polls inline, then submits: what an FFI handler does. `done` gets "" or the error.
  void Start(std::unique_ptr<Operation> operation, host::ProgressEngine::Completion done);
  // Start, then wait here. Returns "" or the error.
  std::string Finish(std::unique_ptr<Operation> operation);

 private:
  std::unique_ptr<host::Heap> heap_;
  std::unique_ptr<host::ProgressEngine> engine_;
  std::vector<std::unique_ptr<GrantBoard>> boards_;
  std::vector<std::unique_ptr<SlotPool>> pools_;
  std::vector<PeContext> contexts_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_JOB_H_
