// Element-wise reduction of several buffers in a fixed order, so every PE computes the same bits.
//
// f32, f64 and integers accumulate in their own type (integers wrap, as XLA's do); f16 and bf16 accumulate in f32 and
// are rounded once, to nearest even. min and max give NaN when any input is NaN, as XLA's do.
#ifndef XLA_SHMEM_THUNKS_REDUCTION_H_
#define XLA_SHMEM_THUNKS_REDUCTION_H_

#include <cstddef>
#include <string>

namespace xla_shmem {

enum class ReductionKind { kSum, kProd, kMin, kMax };
enum class ElementType { kF32, kF64, kF16, kBf16, kS8, kS16, kS32, kS64, kU8, kU16, kU32, kU64 };

size_t ElementBytes(ElementType type);

// `inputs[0..count)` hold `elements` each and are reduced in that order into `output`, which may be one of them.
// Buffers are aligned to their element size.
void Reduce(ElementType type, ReductionKind kind, const char* const* inputs, size_t count, size_t elements,
            char* output);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_THUNKS_REDUCTION_H_
