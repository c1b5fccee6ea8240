#include "xla_patch/shm/copy_timer.h"

#include <atomic>
#include <chrono>

namespace xla_shmem::shm {
namespace {

std::atomic<bool> enabled{false};
thread_local uint64_t copied_ns = 0;
thread_local bool copying = false;

uint64_t Now() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count());
}

}  // namespace

void EnableCopyTimer() { enabled.store(true, std::memory_order_relaxed); }

uint64_t CopiedNanoseconds() { return copied_ns; }

ScopedCopyTimer::ScopedCopyTimer()
    : outermost_(enabled.load(std::memory_order_relaxed) && !copying), start_ns_(outermost_ ? Now() : 0) {
  if (outermost_) copying = true;
}

ScopedCopyTimer::~ScopedCopyTimer() {
  if (!outermost_) return;
  copied_ns += Now() - start_ns_;
  copying = false;
}

}  // namespace xla_shmem::shm
