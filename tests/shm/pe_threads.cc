#include "tests/shm/pe_threads.h"

#include "tests/doubles/nvshmem_host_api.h"

namespace xla_shmem::testing {

PeThreads::PeThreads(int n_pes) {
  for (int pe = 0; pe < n_pes; ++pe) threads_.emplace_back([this, pe] { Work(pe); });
}

PeThreads::~PeThreads() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PeThreads::Run(const std::function<void(int pe)>& body) {
  std::unique_lock<std::mutex> lock(mutex_);
  body_ = &body;
  left_ = static_cast<int>(threads_.size());
  ++runs_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return left_ == 0; });
}

void PeThreads::Work(int pe) {
  nvshmem_double::BindPe(pe);
  std::unique_lock<std::mutex> lock(mutex_);
  for (int run = 1;; ++run) {
    changed_.wait(lock, [&] { return stop_ || runs_ == run; });
    if (stop_) return;
    const std::function<void(int pe)>& body = *body_;
    lock.unlock();
    body(pe);
    lock.lock();
    if (--left_ == 0) changed_.notify_all();
  }
}

}  // namespace xla_shmem::testing
