#include "xla_patch/hlo/rewrite/unsupported_by_xla.h"

#include <optional>
#include <string>

namespace xla_shmem::hlo {
namespace {

// XLA:CPU reads `and` and `or` of predicates as minimum and maximum.
bool IsReducedByXlaCpu(ReductionKind reduction, ElementType type) {
  if (reduction == ReductionKind::kAnd || reduction == ReductionKind::kOr) return type == ElementType::kPred;
  return reduction != ReductionKind::kXor;
}

}  // namespace

Unsupported UnsupportedByXla(const CollectiveSpec& spec, Lowering lowering) {
  if (lowering != Lowering::kCpu) return std::nullopt;
  if (spec.op == CollectiveOp::kCollectiveBroadcast || spec.op == CollectiveOp::kRaggedAllToAll) {
    return std::string("XLA:CPU has no thunk for ") + OpName(spec.op);
  }
  if (!spec.reduction.has_value()) return std::nullopt;
  for (const ElementType type : spec.element_types) {
    if (!IsReducedByXlaCpu(*spec.reduction, type)) {
      return "XLA:CPU has no reduction \"" + std::string(ReductionName(spec.reduction)) + "\" for " +
             ElementTypeName(type);
    }
  }
  return std::nullopt;
}

}  // namespace xla_shmem::hlo
