// Element-wise reduction of several buffers in a fixed order, so every PE computes the same bits.
//
// f32, f64, complex numbers and integers accumulate in their own type (integers wrap, as XLA's do); f16, bf16 and the
// 8-bit floats accumulate in f32 and are rounded once, to nearest even. min and max give NaN when any input is NaN, as
// XLA's do. and, or and xor work on the bits of integers; predicates know no arithmetic: sum and max are or, prod and
// min are and.
#ifndef XLA_SHMEM_THUNKS_REDUCTION_H_
#define XLA_SHMEM_THUNKS_REDUCTION_H_

#include <cstddef>
#include <string>

namespace xla_shmem {

// The GPU's kernels know the first of each, up to kMax and kU64 (stream/all_reduce_steps.cc): new ones go to the end.
enum class ReductionKind { kSum, kProd, kMin, kMax, kAnd, kOr, kXor };
enum class ElementType {
  kF32,
  kF64,
  kF16,
  kBf16,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kPred,
  kC64,
  kC128,
  kF8E4M3Fn,
  kF8E5M2,
  kF8E4M3B11Fnuz,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kF8E3M4,
  kF8E4M3,
};

size_t ElementBytes(ElementType type);

// False where the two make no sense together: and, or, xor of floats; anything but sum and prod of complex numbers.
bool Supports(ElementType type, ReductionKind kind);

// `inputs[0..count)` hold `elements` each and are reduced in that order into `output`, which may be one of them.
// Buffers are aligned to their element size (complex numbers: of a part). `type` must support `kind`.
void Reduce(ElementType type, ReductionKind kind, const char* const* inputs, size_t count, size_t elements,
            char* output);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_REDUCTION_H_
