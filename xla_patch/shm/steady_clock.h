#ifndef XLA_SHMEM_SHM_STEADY_CLOCK_H_
#define XLA_SHMEM_SHM_STEADY_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace xla_shmem::shm {

// Nanoseconds of a clock that all processes of a host share.
inline int64_t SteadyNanoseconds() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count();
}

}  // namespace xla_shmem::shm

#endif  // XLA_SHMEM_SHM_STEADY_CLOCK_H_
