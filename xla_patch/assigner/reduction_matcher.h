#ifndef XLA_SHMEM_ASSIGNER_REDUCTION_MATCHER_H_
#define XLA_SHMEM_ASSIGNER_REDUCTION_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

// One instruction of a reduction computation, as far as matching needs it.
struct ReductionNode {
  std::string opcode;  // as HLO text has it
  int64_t parameter_number = 0;
  ElementType element_type = ElementType::kInvalid;
  bool is_scalar = false;
  std::vector<size_t> operands;  // indices among the nodes
};

// Two parameters, the op, and at most three conversions: a larger computation need not be read at all.
constexpr size_t kMaxReductionNodes = 6;

// sum, prod, min, max, and, or, xor for a computation that applies just that to its two parameters (bf16/f16 may detour
// through f32); none for any other.
std::optional<ReductionKind> MatchReduction(const std::vector<ReductionNode>& nodes, size_t root);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_REDUCTION_MATCHER_H_
