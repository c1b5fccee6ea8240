#ifndef XLA_SHMEM_TYPES_REDUCTION_KIND_H_
#define XLA_SHMEM_TYPES_REDUCTION_KIND_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "xla_patch/types/element_type.h"

namespace xla_shmem {

enum class ReductionKind : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor };

inline constexpr ReductionKind kReductionKinds[] = {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
                                                    ReductionKind::kMax, ReductionKind::kAnd,  ReductionKind::kOr,
                                                    ReductionKind::kXor};

// "sum", ...; "none" for a computation that is none of these.
const char* ReductionName(std::optional<ReductionKind> kind);
std::optional<ReductionKind> ReductionNamed(std::string_view name);

// Whether there is a reduction of this kind for this type, on CPU (thunks/reduction.h) and GPU
// (nvshmem/gpu/reduction_kernels.h). Predicates and integers have all kinds; floats have no and, or, xor; complex
// numbers, which have no order, only sum and prod. Other types have none.
bool Supports(ElementType type, ReductionKind kind);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_REDUCTION_KIND_H_
