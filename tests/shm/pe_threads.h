// Threads for the PEs of a job of one process, which run one function after another.
#ifndef XLA_SHMEM_TESTS_SHM_PE_THREADS_H_
#define XLA_SHMEM_TESTS_SHM_PE_THREADS_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace xla_shmem::testing {

// A thread a PE, bound to it (nvshmem_host_api.h). Under ThreadSanitizer a new thread takes about 5 ms.
class PeThreads {
 public:
  explicit PeThreads(int n_pes);
  ~PeThreads();
  PeThreads(const PeThreads&) = delete;
  PeThreads& operator=(const PeThreads&) = delete;

  // Runs `body(pe)` on every thread and waits for all.
  void Run(const std::function<void(int pe)>& body);

 private:
  void Work(int pe);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int pe)>* body_ = nullptr;
  int runs_ = 0;
  int left_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_SHM_PE_THREADS_H_
