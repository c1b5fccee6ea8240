#include "xla_patch/nvshmem/gpu/reduction_kernels.h"

#include <algorithm>
#include <iterator>

#include "xla_patch/nvshmem/gpu/kernels/multimem_reductions.h"

namespace xla_shmem::gpu {
namespace {

KernelReduction OfIntegers(Elements with_sign, Elements without_sign, ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
    case ReductionKind::kProd:  // they wrap, so the sign makes no difference
      return {without_sign, kind};
    case ReductionKind::kMin:
    case ReductionKind::kMax:
      return {with_sign, kind};
    case ReductionKind::kAnd:
    case ReductionKind::kOr:
    case ReductionKind::kXor:
      break;
  }
  return {kBits, kind};
}

KernelReduction OfSums(Elements sums, Elements others, ReductionKind kind) {
  return {kind == ReductionKind::kSum ? sums : others, kind};
}

// XLA's predicates are bytes 0 and 1.
KernelReduction OfPredicates(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
    case ReductionKind::kMax:
    case ReductionKind::kOr:
      return {kBits, ReductionKind::kOr};
    case ReductionKind::kProd:
    case ReductionKind::kMin:
    case ReductionKind::kAnd:
      return {kBits, ReductionKind::kAnd};
    case ReductionKind::kXor:
      break;
  }
  return {kBits, ReductionKind::kXor};
}

}  // namespace

std::optional<KernelReduction> FindKernelReduction(ElementType type, ReductionKind kind) {
  if (!Supports(type, kind)) return std::nullopt;
  switch (type) {
    case ElementType::kPred:
      return OfPredicates(kind);
    case ElementType::kS8:
      return OfIntegers(kS8, kU8, kind);
    case ElementType::kS16:
      return OfIntegers(kS16, kU16, kind);
    case ElementType::kS32:
      return OfIntegers(kS32, kU32, kind);
    case ElementType::kS64:
      return OfIntegers(kS64, kU64, kind);
    case ElementType::kU8:
      return OfIntegers(kU8, kU8, kind);
    case ElementType::kU16:
      return OfIntegers(kU16, kU16, kind);
    case ElementType::kU32:
      return OfIntegers(kU32, kU32, kind);
    case ElementType::kU64:
      return OfIntegers(kU64, kU64, kind);
    case ElementType::kF16:
      return OfSums(kSumsOfF16, kF16, kind);
    case ElementType::kBf16:
      return OfSums(kSumsOfBf16, kBf16, kind);
    case ElementType::kF32:
      return OfSums(kSumsOfF32, kF32, kind);
    case ElementType::kF64:
      return KernelReduction{kF64, kind};
    case ElementType::kC64:
      return OfSums(kSumsOfF32, kProductsOfC64, kind);
    case ElementType::kC128:
      return OfSums(kF64, kProductsOfC128, kind);
    case ElementType::kF8E5M2:
      return KernelReduction{kF8E5M2, kind};
    case ElementType::kF8E4M3:
      return KernelReduction{kF8E4M3, kind};
    case ElementType::kF8E4M3Fn:
      return KernelReduction{kF8E4M3Fn, kind};
    case ElementType::kF8E4M3B11Fnuz:
      return KernelReduction{kF8E4M3B11Fnuz, kind};
    case ElementType::kF8E5M2Fnuz:
      return KernelReduction{kF8E5M2Fnuz, kind};
    case ElementType::kF8E4M3Fnuz:
      return KernelReduction{kF8E4M3Fnuz, kind};
    case ElementType::kF8E3M4:
      return KernelReduction{kF8E3M4, kind};
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
      break;  // Supports() is false
  }
  return std::nullopt;
}

bool IsInSwitch(const KernelReduction& reduction) {
  static constexpr KernelReduction kReductions[] = {
#define XLA_SHMEM_ROW(elements, kind, registers, operation) {elements, ReductionKind::k##kind},
      XLA_SHMEM_MULTIMEM_REDUCTIONS(XLA_SHMEM_ROW)
#undef XLA_SHMEM_ROW
  };
  return std::find(std::begin(kReductions), std::end(kReductions), reduction) != std::end(kReductions);
}

}  // namespace xla_shmem::gpu
