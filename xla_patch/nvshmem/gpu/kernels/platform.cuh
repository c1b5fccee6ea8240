// What the device code takes from its compiler: NVRTC, clang for the emulated GPU, or the host's compiler in unit
// tests, where a block is a thread of the host. There tests/nvshmem/gpu/kernels_on_cpu.cc has the functions of this
// file.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_PLATFORM_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_PLATFORM_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"

// Before a loop.
#ifdef __CUDA_ARCH__
#define XLA_SHMEM_UNROLL _Pragma("unroll")
#define XLA_SHMEM_NO_UNROLL _Pragma("unroll 1")
#else
#define XLA_SHMEM_UNROLL
#define XLA_SHMEM_NO_UNROLL
#endif

// A loop over many bytes is a function that is called, so that it has all registers for itself. Neither emulator has
// calls.
#ifdef __CUDACC_RTC__
#define XLA_SHMEM_CALLED __device__ __noinline__
#else
#define XLA_SHMEM_CALLED __device__ inline
#endif

namespace xla_shmem::gpu {

// Two neighbouring words, whose address is a multiple of 16. Each is whole, and there is no order, not even between the
// two (PTX ISA, "Memory Consistency Model": vector data-types).
struct WordPair {
  Word first, second;
};

#ifdef __CUDA_ARCH__

// A value of which the compiler knows nothing. So what depends on it is computed again each time, and takes no
// registers in between.
__device__ inline Word Fresh(Word value) {
  asm volatile("" : "+l"(value));
  return value;
}

// System scope: the other side is another GPU, or the host.
__device__ inline Word LoadAcquire(const Word* word) {
  Word value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

// Without order: cheap enough to look again and again.
__device__ inline Word LoadRelaxed(const Word* word) {
  Word value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline void StorePairRelaxed(Word* words, Word first, Word second) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(words), "l"(first), "l"(second) : "memory");
}
__device__ inline WordPair LoadPairRelaxed(const Word* words) {
  WordPair pair;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(pair.first), "=l"(pair.second)
               : "l"(words)
               : "memory");
  return pair;
}

__device__ inline void StoreRelease(Word* word, Word value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

// Adds 1; returns the value before. Orders nothing.
__device__ inline Word CountBlock(Word* word) {
  Word before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(word) : "memory");
  return before;
}

// Lets others run before the next look at a word.
__device__ inline void Pause() { asm volatile("nanosleep.u32 100;"); }

__device__ inline void Trap() { asm volatile("trap;"); }

#endif

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_PLATFORM_CUH_
