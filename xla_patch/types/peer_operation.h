#ifndef XLA_SHMEM_TYPES_PEER_OPERATION_H_
#define XLA_SHMEM_TYPES_PEER_OPERATION_H_

#include <cstdint>

namespace xla_shmem {

// An operation of this process, and what a PE of another one calls it. They differ if the copies of the program do.
struct PeerOperation {
  int pe;
  uint64_t operation;
  uint64_t other;
};

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_PEER_OPERATION_H_
