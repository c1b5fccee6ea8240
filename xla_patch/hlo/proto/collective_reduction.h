#ifndef XLA_SHMEM_HLO_PROTO_COLLECTIVE_REDUCTION_H_
#define XLA_SHMEM_HLO_PROTO_COLLECTIVE_REDUCTION_H_

#include <cstdint>
#include <optional>

#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem::hlo {

// sum, prod, min, max, and, or, xor for a computation that applies just that to its two parameters (bf16/f16 may detour
// through f32); none for any other.
std::optional<ReductionKind> MatchReduction(const Module& module, int64_t computation_id);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_COLLECTIVE_REDUCTION_H_
