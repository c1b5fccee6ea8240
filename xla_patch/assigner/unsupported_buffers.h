#ifndef XLA_SHMEM_ASSIGNER_UNSUPPORTED_BUFFERS_H_
#define XLA_SHMEM_ASSIGNER_UNSUPPORTED_BUFFERS_H_

#include <cstddef>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/unsupported.h"

namespace xla_shmem {

// No SHMEM transport permutes slices in place. Both readers report it in the same words.
constexpr const char* kPermutesSlices = "it permutes slices in place";

// One operand and the result of the same number.
struct TransferredBuffer {
  bool is_dynamic = false;  // some dimension is only an upper bound
  bool is_on_host = false;  // one of them lies in host memory
  // Whether moving bytes is right. For most ops operand and result are equal in type, dimensions and physical order.
  // Of an all-gather the result is as many operands as a group has members, one after the other in memory; of a
  // reduce-scatter it is the other way round; an all-to-all of one array is made of that many parts, and one of a tuple
  // has arrays that are all alike.
  bool fits = false;
};

// Why no SHMEM transport can transfer these buffers. `buffers` has one entry for each operand that has a result.
Unsupported UnsupportedBuffers(const CollectiveSpec& spec, size_t num_operands, size_t num_results,
                               const std::vector<TransferredBuffer>& buffers);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_UNSUPPORTED_BUFFERS_H_
