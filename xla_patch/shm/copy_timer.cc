#include "xla_patch/shm/copy_timer.h"

#include <atomic>
#include <chrono>

namespace xla_shmem::shm {
namespace {

std::atomic<bool> measured{false};
thread_local uint64_t moved_ns = 0;
thread_local bool moving = false;

uint64_t Now() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count());
}

}  // namespace

void EnableCopyTimer() { measured.store(true, std::memory_order_relaxed); }

uint64_t CopiedNanoseconds() { return moved_ns; }

ScopedCopyTimer::ScopedCopyTimer()
    : outermost_(measured.load(std::memory_order_relaxed) && !moving), start_ns_(outermost_ ? Now() : 0) {
  if (outermost_) moving = true;
}

ScopedCopyTimer::~ScopedCopyTimer() {
  if (!outermost_) return;
  moved_ns += Now() - start_ns_;
  moving = false;
}

}  // namespace xla_shmem::shm
