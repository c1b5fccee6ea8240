#include "xla_patch/nvshmem/gpu/reduction_kernels.h"

#include <algorithm>
#include <iterator>

#include "xla_patch/nvshmem/gpu/kernels/multimem_reductions.h"

namespace xla_shmem::gpu {
namespace {

// How the device code knows the sums, products and other reductions of a type. Integers wrap, so the sign makes no
// difference to their sums and products.
struct TypeElements {
  ElementType type;
  Elements sums;
  Elements products;
  Elements others;
};
constexpr TypeElements kTypes[] = {
    {ElementType::kS8, kU8, kU8, kS8},
    {ElementType::kS16, kU16, kU16, kS16},
    {ElementType::kS32, kU32, kU32, kS32},
    {ElementType::kS64, kU64, kU64, kS64},
    {ElementType::kU8, kU8, kU8, kU8},
    {ElementType::kU16, kU16, kU16, kU16},
    {ElementType::kU32, kU32, kU32, kU32},
    {ElementType::kU64, kU64, kU64, kU64},
    {ElementType::kF16, kSumsOfF16, kF16, kF16},
    {ElementType::kBf16, kSumsOfBf16, kBf16, kBf16},
    {ElementType::kF32, kSumsOfF32, kF32, kF32},
    {ElementType::kF64, kF64, kF64, kF64},
    {ElementType::kC64, kSumsOfF32, kProductsOfC64, kProductsOfC64},
    {ElementType::kC128, kF64, kProductsOfC128, kProductsOfC128},
    {ElementType::kF8E5M2, kF8E5M2, kF8E5M2, kF8E5M2},
    {ElementType::kF8E4M3, kF8E4M3, kF8E4M3, kF8E4M3},
    {ElementType::kF8E4M3Fn, kF8E4M3Fn, kF8E4M3Fn, kF8E4M3Fn},
    {ElementType::kF8E4M3B11Fnuz, kF8E4M3B11Fnuz, kF8E4M3B11Fnuz, kF8E4M3B11Fnuz},
    {ElementType::kF8E5M2Fnuz, kF8E5M2Fnuz, kF8E5M2Fnuz, kF8E5M2Fnuz},
    {ElementType::kF8E4M3Fnuz, kF8E4M3Fnuz, kF8E4M3Fnuz, kF8E4M3Fnuz},
    {ElementType::kF8E3M4, kF8E3M4, kF8E3M4, kF8E3M4},
};

// XLA's predicates are bytes 0 and 1, for which sums and maxima are the same as or, products and minima as and.
ReductionKind BitwiseKind(ReductionKind kind) {
  if (kind == ReductionKind::kSum || kind == ReductionKind::kMax) return ReductionKind::kOr;
  return kind == ReductionKind::kProd || kind == ReductionKind::kMin ? ReductionKind::kAnd : kind;
}

}  // namespace

std::optional<KernelReduction> FindKernelReduction(ElementType type, ReductionKind kind) {
  if (!Supports(type, kind)) return std::nullopt;
  if (type == ElementType::kPred || kind >= ReductionKind::kAnd) return KernelReduction{kBits, BitwiseKind(kind)};
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& row) { return row.type == type; });
  if (found == std::end(kTypes)) return std::nullopt;
  const bool sums = kind == ReductionKind::kSum, multiplies = kind == ReductionKind::kProd;
  return KernelReduction{sums ? found->sums : multiplies ? found->products : found->others, kind};
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
