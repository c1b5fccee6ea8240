#include "xla_patch/shm/copy_timer.h"

#include <atomic>
#include <chrono>

namespace xla_shmem::host {
namespace {

std::atomic<bool> measured{false};
thread_local uint64_t moved_ns = 0;
thread_local bool moving = false;

uint64_t Now() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count());
}

}  // namespace

void MeasureMoves() { measured.store(true, std::memory_order_relaxed); }

uint64_t MovedNanoseconds() { return moved_ns; }

Move::Move() : outermost_(measured.load(std::memory_order_relaxed) && !moving), start_ns_(outermost_ ? Now() : 0) {
  if (outermost_) moving = true;
}

Move::~Move() {
  if (!outermost_) return;
  moved_ns += Now() - start_ns_;
  moving = false;
}

}  // namespace xla_shmem::host
