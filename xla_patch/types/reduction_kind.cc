#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

const char* ReductionName(std::optional<ReductionKind> kind) {
  if (!kind.has_value()) {
    return "none";
  }
  switch (*kind) {
    case ReductionKind::kSum:
      return "sum";
    case ReductionKind::kProd:
      return "prod";
    case ReductionKind::kMin:
      return "min";
    case ReductionKind::kMax:
      return "max";
    case ReductionKind::kAnd:
      return "and";
    case ReductionKind::kOr:
      return "or";
    case ReductionKind::kXor:
      return "xor";
  }
  return "none";
}

std::optional<ReductionKind> ReductionNamed(std::string_view name) {
  for (const ReductionKind kind : kReductionKinds) {
    if (name == ReductionName(kind)) {
      return kind;
    }
  }
  return std::nullopt;
}

}  // namespace xla_shmem
