// The name of a message, the same at both ends.
#ifndef XLA_SHMEM_THUNKS_CPU_MESSAGE_KEY_H_
#define XLA_SHMEM_THUNKS_CPU_MESSAGE_KEY_H_

#include <cstdint>

namespace xla_shmem {

// The operation (unique over modules and parts of combined collectives), and which execution of it: run number and
// count within that run.
struct MessageKey {
  uint64_t operation;
  uint64_t execution;
  bool operator==(const MessageKey& other) const {
    return operation == other.operation && execution == other.execution;
  }
};

// Of an operation's second message from the same PE: an all-reduce's results follow its contributions. Ids are hashes,
// so flipping some bits of one gives one that nobody has.
inline MessageKey SecondMessage(const MessageKey& key) {
  return {key.operation ^ 0xa5a5a5a500000001ull, key.execution};
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_CPU_MESSAGE_KEY_H_
