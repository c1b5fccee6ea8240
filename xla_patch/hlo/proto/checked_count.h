#ifndef XLA_SHMEM_HLO_PROTO_CHECKED_COUNT_H_
#define XLA_SHMEM_HLO_PROTO_CHECKED_COUNT_H_

#include <cstdint>

namespace xla_shmem::hlo {

// Arithmetic on counts. -1 stands for an unknown count, and for one that does not fit in 64 bits.
inline int64_t Sum(int64_t a, int64_t b) {
  int64_t sum;
  return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? -1 : sum;
}
inline int64_t Product(int64_t a, int64_t b) {
  int64_t product;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_CHECKED_COUNT_H_
