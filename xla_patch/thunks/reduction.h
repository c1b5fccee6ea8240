// Element-wise reduction of several buffers in a fixed order, so every PE computes the same bits.
//
// f32, f64, complex numbers and integers accumulate in their own type; integers wrap, as in XLA. f16, bf16 and the
// 8-bit floats accumulate in f32 and are rounded once, to nearest even. min and max give NaN if any input is NaN, as in
// XLA. and, or and xor work on the bits of integers. For predicates, sum and max are or, prod and min are and.
#ifndef XLA_SHMEM_THUNKS_REDUCTION_H_
#define XLA_SHMEM_THUNKS_REDUCTION_H_

#include <cstddef>

#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

// `inputs[0..count)` hold `elements` each and are reduced in that order into `output`, which may be one of them.
// Buffers are aligned to their element size; for complex numbers to the size of a part. Supports(type, kind) must hold.
void Reduce(ElementType type, ReductionKind kind, const char* const* inputs, size_t count, size_t elements,
            char* output);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_REDUCTION_H_
