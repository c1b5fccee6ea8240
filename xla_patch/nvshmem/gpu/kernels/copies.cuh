// Copies by threads of a block together.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_COPIES_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_COPIES_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"

namespace xla_shmem::gpu {

constexpr Word kPack = kPackBytes;  // bytes of the widest load

__device__ inline Word Minimum(Word a, Word b) { return a < b ? a : b; }
__device__ inline Word Maximum(Word a, Word b) { return a > b ? a : b; }
__device__ inline Word PadToPack(Word bytes) { return (bytes + kPack - 1) / kPack * kPack; }

struct alignas(16) Pack16 {
  Word low, high;
};

// At most 8 bytes of a word, from any address and to any address.
__device__ inline Word LoadBytes(const char* from, unsigned bytes) {
  if (bytes >= sizeof(Word) && reinterpret_cast<Word>(from) % sizeof(Word) == 0)
    return *reinterpret_cast<const Word*>(from);
  Word word = 0;
  XLA_SHMEM_NO_UNROLL
  for (unsigned i = 0; i < Minimum(bytes, sizeof(Word)); ++i)
    word |= Word{static_cast<unsigned char>(from[i])} << 8 * i;
  return word;
}
__device__ inline void StoreBytes(char* to, Word word, unsigned bytes) {
  if (bytes >= sizeof(Word) && reinterpret_cast<Word>(to) % sizeof(Word) == 0) {
    *reinterpret_cast<Word*>(to) = word;
    return;
  }
  XLA_SHMEM_NO_UNROLL
  for (unsigned i = 0; i < Minimum(bytes, sizeof(Word)); ++i) to[i] = static_cast<char>(word >> 8 * i);
}

// Threads of a block that copy together: whole warps, all of them or those for one of several peers.
struct Team {
  unsigned rank;
  unsigned size;
};
__device__ inline Team WholeBlock() { return {threadIdx.x, blockDim.x}; }

// Copies units to the same offset of several places, and loads each once. With kOne there is one place, `to`.
template <typename Unit, bool kOne>
__device__ inline void CopyUnits(char* to, char* const* places, int count, const char* from, unsigned begin,
                                 unsigned end, Team team) {
  constexpr int kUnroll = 4;
  const unsigned step = team.size * sizeof(Unit);
  const auto store = [&](char* place, unsigned at, const Unit& unit) { *reinterpret_cast<Unit*>(place + at) = unit; };
  const auto load = [&](unsigned at) { return *reinterpret_cast<const Unit*>(from + at); };
  unsigned at = begin + team.rank * sizeof(Unit);
  XLA_SHMEM_NO_UNROLL
  for (; at + (kUnroll - 1) * step < end; at += kUnroll * step) {
    Unit loaded[kUnroll];
    XLA_SHMEM_UNROLL
    for (int i = 0; i < kUnroll; ++i) loaded[i] = load(at + i * step);
    XLA_SHMEM_NO_UNROLL
    for (int place = 0; place < (kOne ? 1 : count); ++place) {
      char* const dest = kOne ? to : places[place] + reinterpret_cast<Word>(to);
      XLA_SHMEM_UNROLL
      for (int i = 0; i < kUnroll; ++i) store(dest, at + i * step, loaded[i]);
    }
  }
  XLA_SHMEM_NO_UNROLL
  for (; at < end; at += step) {
    const Unit loaded = load(at);
    XLA_SHMEM_NO_UNROLL
    for (int place = 0; place < (kOne ? 1 : count); ++place) {
      store(kOne ? to : places[place] + reinterpret_cast<Word>(to), at, loaded);
    }
  }
}

template <bool kOne>
__device__ inline void CopyAligned(char* to, char* const* places, int count, const char* from, unsigned bytes,
                                   Team team) {
  const Word addresses = reinterpret_cast<Word>(to) | reinterpret_cast<Word>(from);
  if (addresses % kPack == 0) {
    const unsigned packed = bytes / kPack * kPack;
    CopyUnits<Pack16, kOne>(to, places, count, from, 0, packed, team);
    CopyUnits<unsigned char, kOne>(to, places, count, from, packed, bytes, team);
  } else if ((addresses | bytes) % 4 == 0) {
    CopyUnits<unsigned int, kOne>(to, places, count, from, 0, bytes, team);
  } else {
    CopyUnits<unsigned char, kOne>(to, places, count, from, 0, bytes, team);
  }
}

// A team copies together, at most what a slot holds.
XLA_SHMEM_CALLED void CopyTogether(char* to, const char* from, unsigned bytes, Team team) {
  CopyAligned</*kOne=*/true>(to, nullptr, 1, from, bytes, team);
}

// All threads of the block copy together to the same offset of places at multiples of 16 bytes.
XLA_SHMEM_CALLED void CopyToPlaces(char* const* places, int count, Word offset, const char* from, unsigned bytes) {
  CopyAligned</*kOne=*/false>(reinterpret_cast<char*>(offset), places, count, from, bytes, WholeBlock());
}

// All threads of the block write zeros together.
XLA_SHMEM_CALLED void ClearTogether(char* to, Word bytes) {
  const Word packed = reinterpret_cast<Word>(to) % kPack == 0 ? bytes / kPack : 0;
  for (Word pack = threadIdx.x; pack < packed; pack += blockDim.x) reinterpret_cast<Pack16*>(to)[pack] = {0, 0};
  for (Word at = packed * kPack + threadIdx.x; at < bytes; at += blockDim.x) to[at] = 0;
}

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_COPIES_CUH_
