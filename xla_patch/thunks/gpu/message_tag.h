// The name of a collective in its messages, so that no PE takes a message of another collective for its own
// (docs/protocol.md, "Tags").
//
// A word that announces a message holds a tag and the low 32 bits of the message's number (TaggedWord in
// nvshmem/gpu/kernels/arguments.h). Receivers wait until it equals what they expect.
#ifndef XLA_SHMEM_THUNKS_GPU_MESSAGE_TAG_H_
#define XLA_SHMEM_THUNKS_GPU_MESSAGE_TAG_H_

#include <cstdint>
#include <string>

namespace xla_shmem::gpu {

// The tag of the operation with this hash. It is equal on all PEs. Two operations have the same tag with a probability
// of 2^-32. It is never 0, so no word of a message is 0.
uint32_t TagOfOperation(uint64_t hash);

// The whole number of a message, of which a word holds the low 32 bits. It must be within 2^31 of `near`.
inline uint64_t NumberNear(uint64_t near, uint64_t word) {
  return near + static_cast<int32_t>(static_cast<uint32_t>(word) - static_cast<uint32_t>(near));
}

// Remembers the collective that this process loads or runs with a tag. From any thread.
void RememberTag(uint32_t tag, const std::string& name);

// The error of collective `name` on PE `pe`: PE `peer` is at the collective with tag `other`. Names it if this process
// remembers it.
std::string DescribeOtherCollective(const std::string& name, int pe, int peer, uint32_t other);
// The same for the collective with tag `own`.
std::string DescribeOtherCollective(uint32_t own, int pe, int peer, uint32_t other);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_MESSAGE_TAG_H_
