// Numbers in sentences.
#ifndef XLA_SHMEM_ASSIGNER_QUANTITIES_H_
#define XLA_SHMEM_ASSIGNER_QUANTITIES_H_

#include <cstdint>
#include <string>

namespace xla_shmem {

// "512 B", "4.0 KiB", "16.0 MiB": binary units, one decimal.
std::string FormatBytes(int64_t bytes);

// "2.1 µs", "310 µs", "12.4 ms"; "not run" for an infinite time.
std::string FormatTime(double us);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_QUANTITIES_H_
