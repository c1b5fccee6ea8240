// Random collectives, for storms and the simulator.
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_RANDOM_TRANSFER_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_RANDOM_TRANSFER_H_

#include <cstddef>
#include <memory>
#include <random>

#include "tests/thunks/cpu/traffic.h"

namespace xla_shmem::testing {

// Bytes of one operand. With `smallest` 0 most are small, some large, some 0; else they are spread evenly.
struct Sizes {
  size_t largest;
  size_t smallest = 0;
};

// The part of `pe` in a random collective of this key. With the same state of `random`, every PE of a job draws its
// part of the same collective, and leaves `random` in the same state.
std::unique_ptr<Transfer> DrawTransfer(std::mt19937_64& random, MessageKey key, int pe, int n_pes, Sizes sizes);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_RANDOM_TRANSFER_H_
