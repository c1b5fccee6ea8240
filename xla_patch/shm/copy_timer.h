// The time that a thread spends copying and reducing data. Measured for XLA_SHMEM_STATS and XLA_SHMEM_TRACE only.
#ifndef XLA_SHMEM_SHM_COPY_TIMER_H_
#define XLA_SHMEM_SHM_COPY_TIMER_H_

#include <cstdint>

namespace xla_shmem::shm {

// Enables the timers of the whole process; to be called before any transfer. They cost two clock reads a copy.
void EnableCopyTimer();

// The time of the calling thread since it started.
uint64_t CopiedNanoseconds();

// Counts the time of its scope. Nested scopes count once.
class ScopedCopyTimer {
 public:
  ScopedCopyTimer();
  ~ScopedCopyTimer();
  ScopedCopyTimer(const ScopedCopyTimer&) = delete;
  ScopedCopyTimer& operator=(const ScopedCopyTimer&) = delete;

 private:
  const bool outermost_;
  const uint64_t start_ns_;
};

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_COPY_TIMER_H_
