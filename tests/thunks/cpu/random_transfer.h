// Random collectives, for storms and the simulator.
#ifndef XLA_SHMEM_TESTS_THUNKS_CPU_RANDOM_TRANSFER_H_
#define XLA_SHMEM_TESTS_THUNKS_CPU_RANDOM_TRANSFER_H_

#include <cstddef>
#include <memory>
#include <random>

#include "tests/thunks/cpu/traffic.h"

namespace xla_shmem::testing {

// The part of `pe` in a random collective of this key. With the same state of `random`, every PE of a job draws its
// part of the same collective, and leaves `random` in the same state. `largest`: bytes of one operand.
std::unique_ptr<Transfer> DrawTransfer(std::mt19937_64& random, MessageKey key, int pe, int n_pes, size_t largest);

}  // namespace xla_shmem::testing

#endif  // XLA_SHMEM_TESTS_THUNKS_CPU_RANDOM_TRANSFER_H_
