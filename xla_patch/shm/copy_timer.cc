#include "xla_patch/shm/copy_timer.h"

#include <atomic>

#include "xla_patch/shm/steady_clock.h"

namespace xla_shmem::shm {
namespace {

std::atomic<bool> enabled{false};
thread_local uint64_t copied_ns = 0;
thread_local bool copying = false;

}  // namespace

void EnableCopyTimer() { enabled.store(true, std::memory_order_relaxed); }

uint64_t CopiedNanoseconds() { return copied_ns; }

ScopedCopyTimer::ScopedCopyTimer()
    : outermost_(enabled.load(std::memory_order_relaxed) && !copying),
      start_ns_(outermost_ ? static_cast<uint64_t>(SteadyNanoseconds()) : 0) {
  if (outermost_) copying = true;
}

ScopedCopyTimer::~ScopedCopyTimer() {
  if (!outermost_) return;
  copied_ns += static_cast<uint64_t>(SteadyNanoseconds()) - start_ns_;
  copying = false;
}

}  // namespace xla_shmem::shm
