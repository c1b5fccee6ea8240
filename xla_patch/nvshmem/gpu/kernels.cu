// The device code of xla-shmem: element-wise reductions in a fixed order, a tick for the watchdog, and a trap that ends
// a stuck job.
//
// NVRTC compiles it at start for this machine's GPU (python/xla_shmem/gpu/kernels.py), so there are no includes. The
// unit tests compile the same file for the CPU and compare it with thunks/reduction.h, which has the same semantics:
// f32, f64 and integers accumulate in their own type (integers wrap), f16 and bf16 in f32 with one rounding to nearest
// even; min and max give NaN if any input is NaN. Inputs and output are aligned to 16 bytes.
//
// The reductions are named reduce_<type>_<kind> (device.cc).

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr int kMaxInputs = 128;

struct ReduceArguments {
  const void* inputs[kMaxInputs];
  void* output;
  u64 elements;
  int count;
};

__device__ inline float FloatOfBits(u32 bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

__device__ inline u32 BitsOfFloat(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(u32, value);
#endif
}

struct Bf16 {
  u16 bits;
};

struct F16 {
  u16 bits;
};

template <typename T>
struct Traits {
  using Sum = T;
  __device__ static T Load(T value) { return value; }
  __device__ static T Store(T value) { return value; }
};

// Signed integers wrap, so the wide ones are added and multiplied as unsigned.
template <typename T>
__device__ inline T Add(T a, T b) {
  return static_cast<T>(a + b);
}
__device__ inline int Add(int a, int b) { return static_cast<int>(static_cast<u32>(a) + static_cast<u32>(b)); }
__device__ inline long long Add(long long a, long long b) {
  return static_cast<long long>(static_cast<u64>(a) + static_cast<u64>(b));
}

template <typename T>
__device__ inline T Multiply(T a, T b) {
  return static_cast<T>(a * b);
}
__device__ inline int Multiply(int a, int b) { return static_cast<int>(static_cast<u32>(a) * static_cast<u32>(b)); }
// Two 16-bit factors would be multiplied as int and could overflow it.
__device__ inline u16 Multiply(u16 a, u16 b) { return static_cast<u16>(static_cast<u32>(a) * static_cast<u32>(b)); }
__device__ inline long long Multiply(long long a, long long b) {
  return static_cast<long long>(static_cast<u64>(a) * static_cast<u64>(b));
}

template <>
struct Traits<Bf16> {
  using Sum = float;
  __device__ static float Load(Bf16 value) { return FloatOfBits(static_cast<u32>(value.bits) << 16); }
  __device__ static Bf16 Store(float value) {
    const u32 bits = BitsOfFloat(value);
    if (value != value) return {static_cast<u16>((bits >> 16) | 0x40)};
    return {static_cast<u16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
};

template <>
struct Traits<F16> {
  using Sum = float;
  __device__ static float Load(F16 value) {
#ifdef __CUDA_ARCH__
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
#else
    return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
#endif
  }
  __device__ static F16 Store(float value) {
#ifdef __CUDA_ARCH__
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return {bits};
#else
    return {__builtin_bit_cast(u16, static_cast<_Float16>(value))};
#endif
  }
};

struct SumOf {
  template <typename T>
  __device__ static T Apply(T a, T b) {
    return Add(a, b);
  }
};

struct ProdOf {
  template <typename T>
  __device__ static T Apply(T a, T b) {
    return Multiply(a, b);
  }
};

// A NaN on either side is the result: the comparison with itself is false only for NaN.
struct MinOf {
  template <typename T>
  __device__ static T Apply(T a, T b) {
    return a != a || a < b ? a : b;
  }
};

struct MaxOf {
  template <typename T>
  __device__ static T Apply(T a, T b) {
    return a != a || a > b ? a : b;
  }
};

template <typename T>
struct alignas(16) Pack {
  static constexpr int kElements = 16 / sizeof(T);
  T values[kElements];
};

template <typename T, typename Kind>
__device__ inline void Reduce(const ReduceArguments& arguments) {
  using Sum = typename Traits<T>::Sum;
  constexpr int kElements = Pack<T>::kElements;
  const u64 packs = arguments.elements / kElements;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x;
  const u64 first = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (u64 pack = first; pack < packs; pack += stride) {
    Sum sums[kElements];
    const Pack<T> first_input = static_cast<const Pack<T>*>(arguments.inputs[0])[pack];
    for (int i = 0; i < kElements; ++i) sums[i] = Traits<T>::Load(first_input.values[i]);
    for (int input = 1; input < arguments.count; ++input) {
      const Pack<T> loaded = static_cast<const Pack<T>*>(arguments.inputs[input])[pack];
      for (int i = 0; i < kElements; ++i) sums[i] = Kind::Apply(sums[i], Traits<T>::Load(loaded.values[i]));
    }
    Pack<T> stored;
    for (int i = 0; i < kElements; ++i) stored.values[i] = Traits<T>::Store(sums[i]);
    static_cast<Pack<T>*>(arguments.output)[pack] = stored;
  }
  const u64 element = packs * kElements + first;
  if (element >= arguments.elements) return;
  Sum sum = Traits<T>::Load(static_cast<const T*>(arguments.inputs[0])[element]);
  for (int input = 1; input < arguments.count; ++input) {
    sum = Kind::Apply(sum, Traits<T>::Load(static_cast<const T*>(arguments.inputs[input])[element]));
  }
  static_cast<T*>(arguments.output)[element] = Traits<T>::Store(sum);
}

#define XLA_SHMEM_KERNEL(name, type, Kind) \
  extern "C" __global__ void name(const ReduceArguments arguments) { Reduce<type, Kind>(arguments); }

#define XLA_SHMEM_KERNELS(name, type)                  \
  XLA_SHMEM_KERNEL(reduce_##name##_sum, type, SumOf)   \
  XLA_SHMEM_KERNEL(reduce_##name##_prod, type, ProdOf) \
  XLA_SHMEM_KERNEL(reduce_##name##_min, type, MinOf)   \
  XLA_SHMEM_KERNEL(reduce_##name##_max, type, MaxOf)

XLA_SHMEM_KERNELS(f32, float)
XLA_SHMEM_KERNELS(f64, double)
XLA_SHMEM_KERNELS(f16, F16)
XLA_SHMEM_KERNELS(bf16, Bf16)
XLA_SHMEM_KERNELS(s8, signed char)
XLA_SHMEM_KERNELS(s16, short)
XLA_SHMEM_KERNELS(s32, int)
XLA_SHMEM_KERNELS(s64, long long)
XLA_SHMEM_KERNELS(u8, u8)
XLA_SHMEM_KERNELS(u16, u16)
XLA_SHMEM_KERNELS(u32, u32)
XLA_SHMEM_KERNELS(u64, u64)

// Counts the operations that have ended: the only progress of a CUDA graph that a watchdog can see from outside. Both
// words are pinned memory of the host.
struct TickArguments {
  u64* busy;
  u64* ended;
};

// Stores a word that the host may read at the same time.
__device__ inline void StoreForHost(u64* word, u64 value) {
#ifdef __CUDA_ARCH__
  *static_cast<volatile u64*>(word) = value;
#else
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
#endif
}

extern "C" __global__ void tick(const TickArguments arguments) {
  StoreForHost(arguments.ended, *arguments.ended + 1);
  StoreForHost(arguments.busy, 0);
}

// Ends every stream of the context with an error, because a stuck wait cannot end itself.
extern "C" __global__ void trap() {
#ifdef __CUDA_ARCH__
  asm("trap;");
#endif
}
