#include "xla_patch/shm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace xla_shmem::shm {
namespace {

// Shared futex (not FUTEX_PRIVATE_FLAG): the word lies in memory that several processes map.
long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void Ring(Doorbell& bell) {
  // The caller's signal must be visible before the load of `sleepers`, or both sides could miss each other.
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not model fences; a read-modify-write gives the same order.
  if (bell.sleepers.fetch_add(0, std::memory_order_seq_cst) == 0) return;
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (bell.sleepers.load(std::memory_order_relaxed) == 0) return;
#endif
  bell.ticket.fetch_add(1, std::memory_order_seq_cst);
  Futex(bell.ticket, FUTEX_WAKE, INT_MAX, nullptr);
}

uint32_t PrepareSleep(Doorbell& bell) {
  bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
#if !defined(__SANITIZE_THREAD__)
  // Pairs with the fence in Ring: the announcement comes before the caller's next load of the signals.
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  return bell.ticket.load(std::memory_order_seq_cst);
}

void Sleep(Doorbell& bell, uint32_t ticket, std::chrono::nanoseconds timeout) {
  timespec limit;
  limit.tv_sec = timeout.count() / 1000000000;
  limit.tv_nsec = timeout.count() % 1000000000;
  Futex(bell.ticket, FUTEX_WAIT, ticket, &limit);
}

void FinishSleep(Doorbell& bell) { bell.sleepers.fetch_sub(1, std::memory_order_seq_cst); }

void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace xla_shmem::shm
