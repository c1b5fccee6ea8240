// Element-wise reductions in the order of the members, so every PE computes the same bits. Their meaning is that of
// thunks/reduction.h, with which the unit tests compare them.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_REDUCTION_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_REDUCTION_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/thunks/narrow_floats.h"

namespace xla_shmem::gpu {

// ReductionKind of types/reduction_kind.h.
enum Kind : int { kSumOf, kProdOf, kMinOf, kMaxOf, kAndOf, kOrOf, kXorOf };

// What a type accumulates in.
template <typename T>
struct Element {
  using Accumulator = T;
  __device__ static T Widen(T value) { return value; }
  __device__ static T Narrow(T value) { return value; }
};

template <typename T>
struct NarrowElement {
  using Accumulator = float;
  __device__ static float Widen(T value) { return T::Widen(value); }
  __device__ static T Narrow(float value) { return T::Narrow(value); }
};
template <>
struct Element<Bf16> : NarrowElement<Bf16> {};
template <int kExponentBits, int kBias, F8Specials kSpecials>
struct Element<F8<kExponentBits, kBias, kSpecials>> : NarrowElement<F8<kExponentBits, kBias, kSpecials>> {};

template <>
struct Element<F16> : NarrowElement<F16> {
#ifdef __CUDA_ARCH__
  __device__ static float Widen(F16 value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
  }
  __device__ static F16 Narrow(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return {bits};
  }
#endif
};

template <typename Part>
struct ComplexOf {
  Part real, imaginary;
};

// Integers wrap: unsigned arithmetic of at least 32 bits has no overflow.
template <typename T>
using Wrapping = decltype(T() + 0U);

template <typename T>
__device__ inline T Add(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
}
template <typename T>
__device__ inline T Multiply(T a, T b) {
  return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
}
template <typename Part>
__device__ inline ComplexOf<Part> Multiply(ComplexOf<Part> a, ComplexOf<Part> b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

template <typename T>
struct Arithmetic {
  __device__ static T Apply(int kind, T a, T b) {
    switch (kind) {
      case kSumOf:
        return Add(a, b);
      case kProdOf:
        return Multiply(a, b);
      // A NaN on either side is the result: the comparison with itself is false only for NaN.
      case kMinOf:
        return a != a || a < b ? a : b;
      default:
        return a != a || a > b ? a : b;
    }
  }
};

template <typename T>
struct Bitwise {
  __device__ static T Apply(int kind, T a, T b) { return kind == kAndOf ? a & b : kind == kOrOf ? a | b : a ^ b; }
};

template <typename T>
struct Product {
  __device__ static T Apply(int /*kind*/, T a, T b) { return Multiply(a, b); }
};

// Element by element, for any kind and alignment. `bytes` of all inputs; the output may be one of them.
template <typename T, typename Operator>
XLA_SHMEM_CALLED void ReduceElements(int kind, const char* const* inputs, int count, Word bytes, char* output) {
  XLA_SHMEM_NO_UNROLL
  for (Word offset = threadIdx.x * sizeof(T); offset < bytes; offset += blockDim.x * sizeof(T)) {
    auto result = Element<T>::Widen(*reinterpret_cast<const T*>(inputs[0] + offset));
    XLA_SHMEM_NO_UNROLL
    for (int i = 1; i < count; ++i) {
      result = Operator::Apply(kind, result, Element<T>::Widen(*reinterpret_cast<const T*>(inputs[i] + offset)));
    }
    *reinterpret_cast<T*>(output + offset) = Element<T>::Narrow(result);
  }
}

template <typename T>
__device__ inline void ReduceArithmetic(int kind, const char* const* inputs, int count, Word bytes, char* output) {
  using Accumulator = typename Element<T>::Accumulator;
  ReduceElements<T, Arithmetic<Accumulator>>(kind, inputs, count, bytes, output);
}

template <typename T>
struct alignas(kPack) Pack {
  static constexpr int kElements = kPack / sizeof(T);
  T values[kElements];
};

template <typename T>
__device__ inline void AddPack(const Pack<T>& pack, typename Element<T>::Accumulator* sums) {
  for (int e = 0; e < Pack<T>::kElements; ++e) sums[e] = Add(sums[e], Element<T>::Widen(pack.values[e]));
}

// Sums of the types that training uses: 16 bytes at a time, from two inputs at once, or four of many: one after another
// the loads from 71 peers would take longer than NVLink. There are at least two.
template <typename T>
XLA_SHMEM_CALLED void ReduceSums(const char* const* inputs, int count, Word bytes, char* output) {
  constexpr int kAtOnce = 4;
  Word addresses = reinterpret_cast<Word>(output);
  for (int i = 0; i < count; ++i) addresses |= reinterpret_cast<Word>(inputs[i]);
  const Word packed = addresses % kPack == 0 ? bytes / kPack * kPack : 0;
  XLA_SHMEM_NO_UNROLL
  for (Word offset = threadIdx.x * kPack; offset < packed; offset += blockDim.x * kPack) {
    const auto load = [&](int i) { return *reinterpret_cast<const Pack<T>*>(inputs[i] + offset); };
    Pack<T> first = load(0);
    Pack<T> second = load(1);
    typename Element<T>::Accumulator sums[Pack<T>::kElements];
    for (int e = 0; e < Pack<T>::kElements; ++e) sums[e] = Element<T>::Widen(first.values[e]);
    AddPack(second, sums);
    int i = 2;
    XLA_SHMEM_NO_UNROLL
    for (; i + kAtOnce < count; i += kAtOnce) {
      Pack<T> loaded[kAtOnce];
      XLA_SHMEM_UNROLL
      for (int j = 0; j < kAtOnce; ++j) loaded[j] = load(i + j);
      XLA_SHMEM_UNROLL
      for (int j = 0; j < kAtOnce; ++j) AddPack(loaded[j], sums);
    }
    XLA_SHMEM_NO_UNROLL
    for (; i < count; i += 2) {
      first = load(i);
      if (i + 1 < count) second = load(i + 1);
      AddPack(first, sums);
      if (i + 1 < count) AddPack(second, sums);
    }
    for (int e = 0; e < Pack<T>::kElements; ++e) first.values[e] = Element<T>::Narrow(sums[e]);
    *reinterpret_cast<Pack<T>*>(output + offset) = first;
  }
  XLA_SHMEM_NO_UNROLL
  for (Word offset = packed + threadIdx.x * sizeof(T); offset < bytes; offset += blockDim.x * sizeof(T)) {
    auto sum = Element<T>::Widen(*reinterpret_cast<const T*>(inputs[0] + offset));
    XLA_SHMEM_NO_UNROLL
    for (int i = 1; i < count; ++i) sum = Add(sum, Element<T>::Widen(*reinterpret_cast<const T*>(inputs[i] + offset)));
    *reinterpret_cast<T*>(output + offset) = Element<T>::Narrow(sum);
  }
}

__device__ inline void Reduce(Elements elements, int kind, const char* const* inputs, int count, Word bytes,
                              char* output) {
  switch (elements) {
    case kSumsOfF32:
      return ReduceSums<float>(inputs, count, bytes, output);
    case kSumsOfF16:
      return ReduceSums<F16>(inputs, count, bytes, output);
    case kSumsOfBf16:
      return ReduceSums<Bf16>(inputs, count, bytes, output);
    case kBits:
      return ReduceElements<unsigned char, Bitwise<unsigned char>>(kind, inputs, count, bytes, output);
    case kProductsOfC64:
      return ReduceElements<ComplexOf<float>, Product<ComplexOf<float>>>(kind, inputs, count, bytes, output);
    case kProductsOfC128:
      return ReduceElements<ComplexOf<double>, Product<ComplexOf<double>>>(kind, inputs, count, bytes, output);
#define XLA_SHMEM_CASE(elements, T) \
  case elements:                    \
    return ReduceArithmetic<T>(kind, inputs, count, bytes, output);
      XLA_SHMEM_ARITHMETIC_ELEMENTS(XLA_SHMEM_CASE)
#undef XLA_SHMEM_CASE
    default:
      return Trap();
  }
}

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_REDUCTION_CUH_
