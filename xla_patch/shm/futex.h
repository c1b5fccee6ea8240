// Doorbells: how a PE that sleeps is woken by a signal from another process.
//
// The cost model: a signal to a busy PE is a store, a fence and a load; only a sleeping PE costs a system call. A
// sleeper first announces itself, then looks at its signals once more, then sleeps on the word it had read before
// looking: a signal that arrives in between changes the word and the kernel refuses to sleep (the classic eventcount;
// Linux futex(2)).
#ifndef XLA_SHMEM_SHM_FUTEX_H_
#define XLA_SHMEM_SHM_FUTEX_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace xla_shmem::shm {

// Lives in shared memory, one a process. Both words are written by every process of the job.
struct alignas(64) Doorbell {
  std::atomic<uint32_t> ticket{0};
  std::atomic<uint32_t> sleepers{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "futex words must be plain 32-bit words");

// Wakes whoever sleeps at `bell`. Call after the store that the sleeper waits for.
void Ring(Doorbell& bell);

// A sleep in two steps, so that the caller can look at what it waits for in between:
//   uint32_t ticket = PrepareSleep(bell);  if (nothing arrived) Sleep(bell, ticket, timeout);  FinishSleep(bell);
uint32_t PrepareSleep(Doorbell& bell);
void Sleep(Doorbell& bell, uint32_t ticket, std::chrono::nanoseconds timeout);
void FinishSleep(Doorbell& bell);

// One turn of a polite busy wait.
void CpuRelax();

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_FUTEX_H_
