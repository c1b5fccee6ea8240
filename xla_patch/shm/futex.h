// Doorbells wake a sleeping PE for a signal from another process.
//
// Cost: a signal to a busy PE is a store, a fence and a load; only a sleeping PE costs a system call. A
// sleeper first announces itself and reads the ticket, then looks at its signals once more, then sleeps on the ticket.
// A signal that arrives in between changes the ticket, and the kernel refuses to sleep (an eventcount; Linux futex(2)).
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

// Wakes all threads that sleep at `bell`. Call it after the store that they wait for.
void Ring(Doorbell& bell);

// Sleeping takes two steps, so that the caller can test its condition in between:
//   uint32_t ticket = PrepareSleep(bell);  if (nothing arrived) Sleep(bell, ticket, timeout);  FinishSleep(bell);
uint32_t PrepareSleep(Doorbell& bell);
void Sleep(Doorbell& bell, uint32_t ticket, std::chrono::nanoseconds timeout);
void FinishSleep(Doorbell& bell);

// Tells the processor that the caller is in a busy wait.
void CpuRelax();

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_FUTEX_H_
