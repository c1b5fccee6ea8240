#include "xla_patch/thunks/reduction.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "xla_patch/thunks/narrow_floats.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#if defined(__clang__)
#define XLA_SHMEM_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed"  // some types have no vector code
#else
#define XLA_SHMEM_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace xla_shmem {
namespace {

// Elements reduced at a time: the accumulators stay in the L1 cache and the output may alias an input.
constexpr size_t kBlock = 1024;

// Disables the flushing of denormals. XLA's threads flush them and the engine's threads do not, but an all-reduce must
// give the same bits on every thread.
class ScopedIeeeDenormals {
 public:
#if defined(__x86_64__)
  ScopedIeeeDenormals() : saved_(_mm_getcsr()) {
    if ((saved_ & kFlushBits) != 0) _mm_setcsr(saved_ & ~kFlushBits);
  }
  ~ScopedIeeeDenormals() {
    if ((saved_ & kFlushBits) != 0) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kFlushBits = 0x8040;  // FTZ and DAZ of MXCSR
  unsigned saved_;
#elif defined(__aarch64__)
  ScopedIeeeDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(saved_ & ~(uint64_t{1} << 24)));  // FZ
  }
  ~ScopedIeeeDenormals() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }

 private:
  uint64_t saved_;
#endif
};

// A predicate is a byte; true is any value but zero.
struct Pred {
  uint8_t byte;
  static uint8_t Widen(Pred value) { return value.byte != 0; }
  static Pred Narrow(uint8_t value) { return {value}; }
};

template <typename Part>
struct Complex {
  Part real, imaginary;
};

// Whether T is its own accumulator. All other types are widened.
template <typename T>
constexpr bool kIsItself =
    std::is_arithmetic_v<T> || std::is_same_v<T, Complex<float>> || std::is_same_v<T, Complex<double>>;

template <typename T>
inline auto Load(T value) {
  if constexpr (kIsItself<T>) {
    return value;
  } else {
    return T::Widen(value);
  }
}

template <typename T, typename Accumulator>
inline T Store(Accumulator value) {
  if constexpr (kIsItself<T>) {
    return value;
  } else {
    return T::Narrow(value);
  }
}

// Integers wrap: unsigned arithmetic has no overflow. Two uint16 would be promoted to int, whose product may overflow,
// hence at least 32 bits.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

struct Sum {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};
struct Prod {
  template <typename T>
  static T Apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
  // Like XLA: without the correction of C for infinities that became NaN.
  template <typename Part>
  static Complex<Part> Apply(Complex<Part> a, Complex<Part> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
  }
};
struct Min {
  template <typename T>
  static T Apply(T a, T b) {
    return a != a || a < b ? a : b;  // a NaN stays; a NaN in b makes `a < b` false
  }
};
struct Max {
  template <typename T>
  static T Apply(T a, T b) {
    return a != a || a > b ? a : b;
  }
};
struct And {
  template <typename T>
  static T Apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T Apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T Apply(T a, T b) {
    return a ^ b;
  }
};

struct Operands {
  const char* const* inputs;
  size_t count;
  size_t elements;
  char* output;
};

// The iterations of loops that write the output are independent, because the output is one of the inputs or apart from
// all of them. Without the pragma the compiler would check for overlap and run in-place reductions without vector code.
template <typename T, typename Operator>
__attribute__((always_inline)) inline void ReduceLoops(const Operands& operands) {
  using Accumulator = decltype(Load(T{}));
  alignas(64) Accumulator partial[kBlock];
  for (size_t begin = 0; begin < operands.elements; begin += kBlock) {
    const size_t size = std::min(kBlock, operands.elements - begin);
    auto input = [&](size_t i) { return reinterpret_cast<const T*>(operands.inputs[i]) + begin; };
    T* const out = reinterpret_cast<T*>(operands.output) + begin;
    const T* const first = input(0);
    const T* const last = input(operands.count - 1);
    if (operands.count == 1) {
      XLA_SHMEM_INDEPENDENT_ITERATIONS
      for (size_t i = 0; i < size; ++i) out[i] = Store<T>(Load(first[i]));
    } else if (operands.count == 2) {
      XLA_SHMEM_INDEPENDENT_ITERATIONS
      for (size_t i = 0; i < size; ++i) out[i] = Store<T>(Operator::Apply(Load(first[i]), Load(last[i])));
    } else {
      // Several inputs in a pass: accumulators that every pass loads and stores cost more than the inputs.
      const T* const second = input(1);
      size_t next = 2;
      if (operands.count > 4) {
        const T* const third = input(2);
        const T* const fourth = input(3);
        for (size_t i = 0; i < size; ++i) {
          const Accumulator both = Operator::Apply(Load(first[i]), Load(second[i]));
          partial[i] = Operator::Apply(Operator::Apply(both, Load(third[i])), Load(fourth[i]));
        }
        next = 4;
      } else {
        for (size_t i = 0; i < size; ++i) partial[i] = Operator::Apply(Load(first[i]), Load(second[i]));
      }
      for (; next + 3 < operands.count; next += 3) {
        const T* const a = input(next);
        const T* const b = input(next + 1);
        const T* const c = input(next + 2);
        for (size_t i = 0; i < size; ++i) {
          const Accumulator both = Operator::Apply(partial[i], Load(a[i]));
          partial[i] = Operator::Apply(Operator::Apply(both, Load(b[i])), Load(c[i]));
        }
      }
      for (; next + 1 < operands.count; ++next) {
        const T* const values = input(next);
        for (size_t i = 0; i < size; ++i) partial[i] = Operator::Apply(partial[i], Load(values[i]));
      }
      XLA_SHMEM_INDEPENDENT_ITERATIONS
      for (size_t i = 0; i < size; ++i) out[i] = Store<T>(Operator::Apply(partial[i], Load(last[i])));
    }
  }
}

#if defined(__x86_64__)
// The same loops with wider registers. No fused multiply-add, so that the bits are equal on all machines.
template <typename T, typename Operator>
__attribute__((target("avx2"))) void ReduceAvx2(const Operands& operands) {
  ReduceLoops<T, Operator>(operands);
}
#endif

template <typename T, typename Operator>
void ReduceTyped(const Operands& operands) {
#if defined(__x86_64__)
  if constexpr (sizeof(T) > 1 || std::is_integral_v<T>) {  // 8-bit floats are widened by a table
    static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
    if (avx2) return ReduceAvx2<T, Operator>(operands);
  }
#endif
  ReduceLoops<T, Operator>(operands);
}

template <typename T>
void ReduceFloats(ReductionKind kind, const Operands& operands) {
  switch (kind) {
    case ReductionKind::kSum:
      return ReduceTyped<T, Sum>(operands);
    case ReductionKind::kProd:
      return ReduceTyped<T, Prod>(operands);
    case ReductionKind::kMin:
      return ReduceTyped<T, Min>(operands);
    case ReductionKind::kMax:
      return ReduceTyped<T, Max>(operands);
    case ReductionKind::kAnd:
    case ReductionKind::kOr:
    case ReductionKind::kXor:
      break;  // Supports() is false
  }
}

// The same buffers, an element a byte.
template <typename T>
Operands BytesOf(Operands operands) {
  operands.elements *= sizeof(T);
  return operands;
}

// Wrapping sums and products have the same bits for signed and unsigned types, and bitwise operations work on bytes.
// That saves two thirds of the code.
template <typename T>
void ReduceIntegers(ReductionKind kind, const Operands& operands) {
  switch (kind) {
    case ReductionKind::kSum:
      return ReduceTyped<std::make_unsigned_t<T>, Sum>(operands);
    case ReductionKind::kProd:
      return ReduceTyped<std::make_unsigned_t<T>, Prod>(operands);
    case ReductionKind::kMin:
      return ReduceTyped<T, Min>(operands);
    case ReductionKind::kMax:
      return ReduceTyped<T, Max>(operands);
    case ReductionKind::kAnd:
      return ReduceTyped<uint8_t, And>(BytesOf<T>(operands));
    case ReductionKind::kOr:
      return ReduceTyped<uint8_t, Or>(BytesOf<T>(operands));
    case ReductionKind::kXor:
      return ReduceTyped<uint8_t, Xor>(BytesOf<T>(operands));
  }
}

void ReducePredicates(ReductionKind kind, const Operands& operands) {
  switch (kind) {
    case ReductionKind::kSum:
    case ReductionKind::kMax:
    case ReductionKind::kOr:
      return ReduceTyped<Pred, Or>(operands);
    case ReductionKind::kProd:
    case ReductionKind::kMin:
    case ReductionKind::kAnd:
      return ReduceTyped<Pred, And>(operands);
    case ReductionKind::kXor:
      return ReduceTyped<Pred, Xor>(operands);
  }
}

template <typename Part>
void ReduceComplex(ReductionKind kind, Operands operands) {
  if (kind == ReductionKind::kProd) return ReduceTyped<Complex<Part>, Prod>(operands);
  operands.elements *= 2;  // a sum is a sum of the parts
  if (kind == ReductionKind::kSum) ReduceTyped<Part, Sum>(operands);
}

}  // namespace

void Reduce(ElementType type, ReductionKind kind, const char* const* inputs, size_t count, size_t elements,
            char* output) {
  const ScopedIeeeDenormals ieee;
  const Operands operands{inputs, count, elements, output};
  switch (type) {
    case ElementType::kF32:
      return ReduceFloats<float>(kind, operands);
    case ElementType::kF64:
      return ReduceFloats<double>(kind, operands);
    case ElementType::kF16:
      return ReduceFloats<F16>(kind, operands);
    case ElementType::kBf16:
      return ReduceFloats<Bf16>(kind, operands);
    case ElementType::kS8:
      return ReduceIntegers<int8_t>(kind, operands);
    case ElementType::kS16:
      return ReduceIntegers<int16_t>(kind, operands);
    case ElementType::kS32:
      return ReduceIntegers<int32_t>(kind, operands);
    case ElementType::kS64:
      return ReduceIntegers<int64_t>(kind, operands);
    case ElementType::kU8:
      return ReduceIntegers<uint8_t>(kind, operands);
    case ElementType::kU16:
      return ReduceIntegers<uint16_t>(kind, operands);
    case ElementType::kU32:
      return ReduceIntegers<uint32_t>(kind, operands);
    case ElementType::kU64:
      return ReduceIntegers<uint64_t>(kind, operands);
    case ElementType::kPred:
      return ReducePredicates(kind, operands);
    case ElementType::kC64:
      return ReduceComplex<float>(kind, operands);
    case ElementType::kC128:
      return ReduceComplex<double>(kind, operands);
    case ElementType::kF8E4M3Fn:
      return ReduceFloats<F8E4M3Fn>(kind, operands);
    case ElementType::kF8E5M2:
      return ReduceFloats<F8E5M2>(kind, operands);
    case ElementType::kF8E4M3B11Fnuz:
      return ReduceFloats<F8E4M3B11Fnuz>(kind, operands);
    case ElementType::kF8E4M3Fnuz:
      return ReduceFloats<F8E4M3Fnuz>(kind, operands);
    case ElementType::kF8E5M2Fnuz:
      return ReduceFloats<F8E5M2Fnuz>(kind, operands);
    case ElementType::kF8E3M4:
      return ReduceFloats<F8E3M4>(kind, operands);
    case ElementType::kF8E4M3:
      return ReduceFloats<F8E4M3>(kind, operands);
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
}

}  // namespace xla_shmem
