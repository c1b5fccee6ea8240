#ifndef XLA_SHMEM_TYPES_TIME_LIMIT_H_
#define XLA_SHMEM_TYPES_TIME_LIMIT_H_

#include <chrono>

namespace xla_shmem {

// Whether a deadline limits anything. A century or more does not: `inf` becomes such a time.
inline bool IsLimit(std::chrono::nanoseconds deadline) { return deadline < std::chrono::hours(1'000'000); }

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_TIME_LIMIT_H_
