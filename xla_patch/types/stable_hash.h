#ifndef XLA_SHMEM_TYPES_STABLE_HASH_H_
#define XLA_SHMEM_TYPES_STABLE_HASH_H_

#include <cstdint>
#include <string_view>

namespace xla_shmem {

// Mixes `bytes` into a 64-bit hash that is the same on every machine. Not cryptographic.
uint64_t HashBytes(uint64_t hash, std::string_view bytes);
uint64_t HashInt(uint64_t hash, uint64_t value);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_STABLE_HASH_H_
