// The key of a message, equal at both ends unless the copies of a program differ (peer_operations.h).
#ifndef XLA_SHMEM_THUNKS_CPU_MESSAGE_KEY_H_
#define XLA_SHMEM_THUNKS_CPU_MESSAGE_KEY_H_

#include <cstdint>

namespace xla_shmem {

// `operation`: a hash that names the collective of a program. `execution`: run number and count within that run.
struct MessageKey {
  uint64_t operation;
  uint64_t execution;
  bool operator==(const MessageKey& other) const {
    return operation == other.operation && execution == other.execution;
  }
};

// The key of the second message of an operation from the same PE: in an all-reduce the results follow the operands. Ids
// are hashes, so the changed id belongs to no other operation.
inline MessageKey SecondMessage(const MessageKey& key) {
  return {key.operation ^ 0xa5a5a5a500000001ull, key.execution};
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MESSAGE_KEY_H_
