#ifndef XLA_SHMEM_NVSHMEM_GPU_REDUCTIONS_H_
#define XLA_SHMEM_NVSHMEM_GPU_REDUCTIONS_H_

#include <cstddef>
#include <optional>

#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

struct GpuElementType {
  ElementType type;
  const char* nvshmem_name;  // as in nvshmemx_<name>_sum_reduce_on_stream
};

// The reductions of NVSHMEM. The lists number element types and reductions without gaps: NvshmemApi::reduce_on_stream
// has a row and a column for each.
inline constexpr GpuElementType kGpuElementTypes[] = {
    {ElementType::kF32, "float"},     {ElementType::kF64, "double"}, {ElementType::kF16, "half"},
    {ElementType::kBf16, "bfloat16"}, {ElementType::kS8, "int8"},    {ElementType::kS16, "int16"},
    {ElementType::kS32, "int32"},     {ElementType::kS64, "int64"},  {ElementType::kU8, "uint8"},
    {ElementType::kU16, "uint16"},    {ElementType::kU32, "uint32"}, {ElementType::kU64, "uint64"},
};
inline constexpr ReductionKind kGpuReductionKinds[] = {ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
                                                       ReductionKind::kMax};

// Positions in the lists; none if GPUs do not reduce `type` by `kind`.
struct GpuReduction {
  size_t type;
  size_t kind;
};
std::optional<GpuReduction> FindGpuReduction(ElementType type, ReductionKind kind);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_NVSHMEM_GPU_REDUCTIONS_H_
