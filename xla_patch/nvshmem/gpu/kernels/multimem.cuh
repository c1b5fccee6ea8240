// Reductions in the NVLink switch (docs/protocol.md, "Multimem").
//
// The lanes have symmetric staging memory with a place for the chunk of each member. Every PE copies its operand there.
// Then each member loads its own place through the multicast address, reduced over all PEs, and all-reduces store the
// result to that place on all PEs. So each element is reduced once, and all PEs have the same bits.
//
// A multicast address and the ordinary address of the same memory are aliases. The memory model orders accesses through
// different ones only if a fence.proxy.alias lies between them on the path of synchronization (PTX ISA, "Memory
// Consistency Model": proxies; "membar, fence": .alias). So each thread has one behind its accesses before the lane
// posts a message, and one before its accesses behind a message.
//
// Messages carry no data: a message says that its sender has filled its staging memory, or has reduced its own place.
// Kernels of other groups may run between two reductions. This is safe: in a chunk, other PEs write to the staging
// memory of a PE only after its first message, and before that message it has copied what the chunk before left there.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/nvshmem/gpu/kernels/multimem_reductions.h"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"
#include "xla_patch/nvshmem/gpu/kernels/reduction.cuh"

namespace xla_shmem::gpu {

#if !defined(__CUDA_ARCH__)

// Loads and stores 16 bytes by hooks of the double (tests/nvshmem/gpu/kernels_on_cpu.cc).
#define XLA_SHMEM_LOAD(registers, operation, elements, kind) MultimemLoadOnHost(address, elements, kind, &loaded)
__device__ inline void MultimemStore(char* address, Pack16 value) { MultimemStoreOnHost(address, &value); }
__device__ inline void FenceAliases() {}

#elif __CUDA_ARCH__ >= 900 && (!defined(__CUDACC_RTC__) || __CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ > 1)

__device__ inline void FenceAliases() { asm volatile("fence.proxy.alias;" ::: "memory"); }

__device__ inline void MultimemStore(char* address, Pack16 value) {
  const auto low = static_cast<unsigned>(value.low), high = static_cast<unsigned>(value.high);
  const auto low_end = static_cast<unsigned>(value.low >> 32), high_end = static_cast<unsigned>(value.high >> 32);
  // Of bits of any type: only floats have vectors.
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(low), "r"(low_end),
               "r"(high), "r"(high_end)
               : "memory");
}

__device__ inline Word JoinHalves(unsigned low, unsigned high) { return low | Word{high} << 32; }

#define XLA_SHMEM_LD_REDUCE "multimem.ld_reduce.relaxed.sys.global."
#define XLA_SHMEM_LOAD_ONE(operation, constraint, to, from) \
  asm volatile(XLA_SHMEM_LD_REDUCE operation " %0, [%1];" : constraint(to) : "l"(from) : "memory")
#define XLA_SHMEM_LOAD_Two(operation)                       \
  XLA_SHMEM_LOAD_ONE(operation, "=l", loaded.low, address); \
  XLA_SHMEM_LOAD_ONE(operation, "=l", loaded.high, address + 8)
#define XLA_SHMEM_LOAD_Four(operation)                     \
  unsigned w[4];                                           \
  XLA_SHMEM_LOAD_ONE(operation, "=r", w[0], address);      \
  XLA_SHMEM_LOAD_ONE(operation, "=r", w[1], address + 4);  \
  XLA_SHMEM_LOAD_ONE(operation, "=r", w[2], address + 8);  \
  XLA_SHMEM_LOAD_ONE(operation, "=r", w[3], address + 12); \
  loaded = {JoinHalves(w[0], w[1]), JoinHalves(w[2], w[3])}
#define XLA_SHMEM_LOAD_Vector(operation)                                \
  unsigned w[4];                                                        \
  asm volatile(XLA_SHMEM_LD_REDUCE operation " {%0, %1, %2, %3}, [%4];" \
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])         \
               : "l"(address)                                           \
               : "memory");                                             \
  loaded = {JoinHalves(w[0], w[1]), JoinHalves(w[2], w[3])}
#define XLA_SHMEM_LOAD(registers, operation, elements, kind) XLA_SHMEM_LOAD_##registers(operation)

#endif

#ifdef XLA_SHMEM_LOAD

// `From(address)`: 16 bytes at a multicast address, reduced over all PEs.
#define XLA_SHMEM_LOADER(elements, kind, registers, operation)     \
  struct Load_##elements##_##kind {                                \
    __device__ static Pack16 From(const char* address) {           \
      Pack16 loaded;                                               \
      XLA_SHMEM_LOAD(registers, operation, elements, k##kind##Of); \
      return loaded;                                               \
    }                                                              \
  };
XLA_SHMEM_MULTIMEM_REDUCTIONS(XLA_SHMEM_LOADER)
#undef XLA_SHMEM_LOADER

// Reduces `bytes` of the staging memory of all PEs, a multiple of 16. The result replaces them on all PEs, or in this
// PE's own staging memory.
template <typename Load, bool kOnAllPes>
XLA_SHMEM_CALLED void ReduceStaged(char* multicast, char* own, Word bytes) {
  constexpr int kUnroll = 2;
  const auto store = [&](Word at, Pack16 value) {
    if (kOnAllPes) {
      MultimemStore(multicast + at, value);
    } else {
      *reinterpret_cast<Pack16*>(own + at) = value;
    }
  };
  const Word stride = blockDim.x * kPack;
  Word at = threadIdx.x * kPack;
  for (; at + (kUnroll - 1) * stride < bytes; at += kUnroll * stride) {
    Pack16 loaded[kUnroll];
    XLA_SHMEM_UNROLL
    for (int i = 0; i < kUnroll; ++i) loaded[i] = Load::From(multicast + at + i * stride);
    XLA_SHMEM_UNROLL
    for (int i = 0; i < kUnroll; ++i) store(at + i * stride, loaded[i]);
  }
  for (; at < bytes; at += stride) store(at, Load::From(multicast + at));
}

__device__ inline void ReduceStaged(const CollectiveArguments& arguments, char* multicast, char* own, Word bytes) {
  const bool on_all = arguments.shape == kTwoShot;
#define XLA_SHMEM_REDUCE_ROW(elements_of_row, kind_of_row, registers, operation)       \
  if (arguments.elements == elements_of_row && arguments.kind == k##kind_of_row##Of) { \
    using Load = Load_##elements_of_row##_##kind_of_row;                               \
    return on_all ? ReduceStaged<Load, true>(multicast, own, bytes)                    \
                  : ReduceStaged<Load, false>(multicast, own, bytes);                  \
  }
  XLA_SHMEM_MULTIMEM_REDUCTIONS(XLA_SHMEM_REDUCE_ROW)
#undef XLA_SHMEM_REDUCE_ROW
  Trap();
}

// This PE's staging memory of a lane, with a place for a chunk of each member.
class Staging {
 public:
  __device__ explicit Staging(const CollectiveArguments& arguments)
      : arguments_(arguments),
        offset_(arguments.lanes.staging + Word{blockIdx.x} * arguments.members * arguments.lanes.slot_bytes) {}

  __device__ char* Own(int member) const { return arguments_.arenas[arguments_.me] + PlaceOf(member); }
  __device__ char* Multicast(int member) const { return arguments_.multicast + PlaceOf(member); }

  // The operand's bytes of the chunk for a member.
  template <typename RangeOf>
  __device__ void CopyOperand(int member, Team team, RangeOf range_of) const {
    ForPieces(arguments_, member, range_of,
              [&](const Piece& piece) { CopyTogether(Own(member) + piece.offset, piece.source, piece.bytes, team); });
  }
  // The reduced bytes of a member to the results.
  template <typename RangeOf>
  __device__ void CopyResult(int member, Team team, RangeOf range_of) const {
    ForPieces(arguments_, member, range_of,
              [&](const Piece& piece) { CopyTogether(piece.dest, Own(member) + piece.offset, piece.bytes, team); });
  }

 private:
  __device__ Word PlaceOf(int member) const { return offset_ + Fresh(member) * arguments_.lanes.slot_bytes; }

  const CollectiveArguments& arguments_;
  const Word offset_;
};

// An all-reduce or reduce-scatter of all PEs.
__device__ inline void ReduceInSwitch(const CollectiveArguments& arguments, Lane& lane) {
  const Staging staging(arguments);
  const bool two_shot = arguments.shape == kTwoShot;
  XLA_SHMEM_NO_UNROLL
  for (Word at = BeginOfLane(arguments); at < EndOfLane(arguments); at += arguments.lanes.slot_bytes) {
    const auto range_of = [&](int member) { return ChunkAt(arguments, at, member); };
    // The peers have read this PE's staging memory when their last message has arrived.
    lane.AwaitPeers(/*all=*/true, lane.posted());
    DivideAmongTeams(arguments.members, [&](int member, Team team) { staging.CopyOperand(member, team, range_of); });
    FenceAliases();
    lane.Post();
    lane.AwaitPeers(/*all=*/true, lane.posted());
    FenceAliases();
    const Range own = range_of(arguments.me);
    ReduceStaged(arguments, staging.Multicast(arguments.me), staging.Own(arguments.me), own.end - own.begin);
    FenceAliases();
    lane.Post();
    if (!two_shot) {
      staging.CopyResult(arguments.me, WholeBlock(), range_of);
      continue;
    }
    lane.AwaitPeers(/*all=*/true, lane.posted());
    FenceAliases();
    DivideAmongTeams(arguments.members, [&](int member, Team team) { staging.CopyResult(member, team, range_of); });
  }
}

#else

// The host does not launch it on such GPUs.
__device__ inline void ReduceInSwitch(const CollectiveArguments& /*arguments*/, Lane& /*lane*/) { Trap(); }

#endif

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_CUH_
