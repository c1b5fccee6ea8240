// Why a collective is left alone, whatever the rules say, or why XLA cannot run it. What the transport of a job does
// not carry is in transport.h.
#ifndef XLA_SHMEM_ASSIGNER_VETOES_H_
#define XLA_SHMEM_ASSIGNER_VETOES_H_

#include <cstddef>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"

namespace xla_shmem {

// No SHMEM transport permutes slices in place.
constexpr const char* kPermutesSlices = "it permutes slices in place";

// XLA runs the collectives of one async computation together, as a group of NCCL's.
constexpr const char* kSharesAsyncComputation = "its async computation holds more than the collective";

// One operand and the result of the same number; for a ragged all-to-all, whose six operands have one result, that one.
struct TransferredBuffer {
  bool is_dynamic = false;  // some dimension is only an upper bound
  bool is_on_host = false;  // one of them lies in host memory
  // Whether moving bytes gives the result. Most ops need operand and result of equal type, dimensions and physical
  // order. The result of an all-gather must be the operands of all members of a group, one after the other in memory;
  // the operand of a reduce-scatter must be their results. The array of an all-to-all must be one part for each member,
  // and the arrays of a tuple must all be alike. A ragged all-to-all needs contiguous rows, as long in its input as in
  // its result, and integers as offsets and sizes.
  bool fits = false;
};

// Why no SHMEM transport can transfer these buffers. `buffers` has one entry for each operand that has a result, or for
// each operand of a ragged all-to-all.
Unsupported UnsupportedBuffers(const CollectiveSpec& spec, size_t num_operands, size_t num_results,
                               const std::vector<TransferredBuffer>& buffers);

// Why stock XLA:CPU refuses to compile the collective. It does so after the hook, which can replace it.
Unsupported UnsupportedByXlaCpu(const CollectiveSpec& spec);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_VETOES_H_
