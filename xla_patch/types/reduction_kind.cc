#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

const char* ReductionName(std::optional<ReductionKind> kind) {
  if (!kind.has_value()) return "none";
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
    if (name == ReductionName(kind)) return kind;
  }
  return std::nullopt;
}

bool Supports(ElementType type, ReductionKind kind) {
  switch (type) {
    case ElementType::kPred:
    case ElementType::kS8:
    case ElementType::kS16:
    case ElementType::kS32:
    case ElementType::kS64:
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
      return true;
    case ElementType::kC64:
    case ElementType::kC128:
      return kind == ReductionKind::kSum || kind == ReductionKind::kProd;
    case ElementType::kF16:
    case ElementType::kBf16:
    case ElementType::kF32:
    case ElementType::kF64:
    case ElementType::kF8E5M2:
    case ElementType::kF8E4M3:
    case ElementType::kF8E4M3Fn:
    case ElementType::kF8E4M3B11Fnuz:
    case ElementType::kF8E5M2Fnuz:
    case ElementType::kF8E4M3Fnuz:
    case ElementType::kF8E3M4:
      return kind != ReductionKind::kAnd && kind != ReductionKind::kOr && kind != ReductionKind::kXor;
    // The rest, and numbers without a name.
    case ElementType::kInvalid:
    case ElementType::kTuple:
    case ElementType::kOpaque:
    case ElementType::kToken:
    case ElementType::kBuffer:
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kF4E2M1Fn:
    case ElementType::kF8E8M0Fnu:
      break;
  }
  return false;
}

}  // namespace xla_shmem
