// The reductions that GPUs have (kernels/reduction.cuh): those of thunks/reduction.h.
#ifndef XLA_SHMEM_NVSHMEM_GPU_REDUCTION_KERNELS_H_
#define XLA_SHMEM_NVSHMEM_GPU_REDUCTION_KERNELS_H_

#include <optional>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem::gpu {

// How the kernel is told which reduction to make.
struct KernelReduction {
  Elements elements;
  ReductionKind kind;
  bool operator==(const KernelReduction& other) const { return elements == other.elements && kind == other.kind; }
};

// None for types without a reduction, for and, or and xor of floats, and for all kinds but sum and prod of complex
// numbers.
std::optional<KernelReduction> FindKernelReduction(ElementType type, ReductionKind kind);

// Whether the NVLink switch does it (kernels/multimem_reductions.h).
bool IsInSwitch(const KernelReduction& reduction);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_REDUCTION_KERNELS_H_
