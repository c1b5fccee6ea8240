#ifndef XLA_SHMEM_TYPES_REDUCTION_KIND_H_
#define XLA_SHMEM_TYPES_REDUCTION_KIND_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace xla_shmem {

enum class ReductionKind : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr, kXor };

inline constexpr ReductionKind kReductionKinds[] = {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
                                                    ReductionKind::kMax, ReductionKind::kAnd,  ReductionKind::kOr,
                                                    ReductionKind::kXor};

// "sum", ...; "none" for a computation that is none of these.
const char* ReductionName(std::optional<ReductionKind> kind);
std::optional<ReductionKind> ReductionNamed(std::string_view name);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_REDUCTION_KIND_H_
