#include "xla_patch/nvshmem/gpu_reductions.h"

#include <algorithm>
#include <iterator>

namespace xla_shmem {

std::optional<GpuReduction> FindGpuReduction(ElementType type, ReductionKind kind) {
  const auto* found_type = std::find_if(std::begin(kGpuElementTypes), std::end(kGpuElementTypes),
                                        [&](const GpuElementType& candidate) { return candidate.type == type; });
  const auto* found_kind = std::find(std::begin(kGpuReductionKinds), std::end(kGpuReductionKinds), kind);
  if (found_type == std::end(kGpuElementTypes) || found_kind == std::end(kGpuReductionKinds)) {
    return std::nullopt;
  }
  return GpuReduction{static_cast<size_t>(found_type - std::begin(kGpuElementTypes)),
                      static_cast<size_t>(found_kind - std::begin(kGpuReductionKinds))};
}

}  // namespace xla_shmem
