// How much of a thread's time goes into moving data, while somebody asks for it (XLA_SHMEM_STATS, XLA_SHMEM_TRACE).
#ifndef XLA_SHMEM_SHM_COPY_TIMER_H_
#define XLA_SHMEM_SHM_COPY_TIMER_H_

#include <cstdint>

namespace xla_shmem::shm {

// For the whole process, before any transfer. Off by default: a clock is read before and after every copy.
void EnableCopyTimer();

// Of the calling thread, since it started.
uint64_t CopiedNanoseconds();

// Counts its scope as moving data. Nested ones count once.
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
