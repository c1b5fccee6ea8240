#ifndef XLA_SHMEM_HLO_ANALYSIS_FLOPS_H_
#define XLA_SHMEM_HLO_ANALYSIS_FLOPS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "xla_patch/hlo/proto/backend_config.h"
#include "xla_patch/hlo/proto/shape.h"

namespace xla_shmem::hlo {

// Elements of an array, or of the first array of a tuple. Saturates.
int64_t CountElements(const Shape& shape);

// The dimensions of the left operand that a matrix product sums over, from an xla.DotDimensionNumbers.
std::vector<int64_t> ContractedDimensions(std::string_view dot_numbers);

// Two operations for each element of the result and each of the `contracted` ones of the left operand. -1 if the left
// operand has no such dimension.
int64_t DotFlops(int64_t result_elements, const Shape& left, const std::vector<int64_t>& contracted);

// Two operations for each element of the result and each element of the kernel that contributes, padding included;
// `numbers` is an xla.ConvolutionDimensionNumbers. -1 if the kernel has no such dimension.
int64_t ConvolutionFlops(int64_t result_elements, const Shape& kernel, std::string_view numbers);

// Attention in one kernel: two products of matrices forward and five backward, each with two operations for each score
// and each of the `head` numbers of a key. Causal attention computes half of the scores. FlashAttention is counted so.
int64_t AttentionFlops(const FusedAttention& attention, int64_t head, bool is_backward);

// Elements of an xla.Window.
int64_t WindowElements(std::string_view window);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_ANALYSIS_FLOPS_H_
