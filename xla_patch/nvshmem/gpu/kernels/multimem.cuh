// Reductions in the NVLink switch, and all-gathers that it multiplies (docs/protocol.md, "Multimem").
//
// The lanes have symmetric staging memory with kLaneSlots places, each with room for a chunk of every member. Chunks of
// all kernels take turns in them. In turn t a lane copies its operand of chunk t there. It waits for message t of all
// PEs, which says that they have staged chunk t - 1. Then it loads its own part of that chunk through the multicast
// address, reduced over all PEs; all-reduces store that to the same part on all PEs. Message t + 1 says both. Behind it
// a lane of an all-reduce takes the results of chunk t - 2, which were stored on all PEs before message t. So each
// element is reduced once, all PEs have the same bits, and a lane copies while messages are on their way.
//
// An all-gather stores its operand to its own part on all PEs, and otherwise sends and takes as `move` does: it sends
// message m once message m - 2 of a peer says that the peer has taken chunk m - 4.
//
// A multicast address and the ordinary address of the same memory are aliases. The memory model orders accesses through
// different ones only if a fence.proxy.alias lies anywhere between them on the path of synchronization (PTX ISA,
// "Memory Consistency Model": proxy-preserved base causality order). So each thread has one behind its accesses, before
// the lane posts a message.
//
// A PE stages chunk t where chunk t - 4 was: the peers have reduced that one before message t - 2, and stored no later
// to that place; the PE has taken the results in turn t - 2. Peers store to it, chunk t, only after message t + 1. A
// kernel's first message waits for the last one before it, so the peers have left the kernel before but for taking its
// last two chunks, which are in other places. Kernels of other groups may run between: they touch no staging memory.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/nvshmem/gpu/kernels/multimem_reductions.h"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"
#include "xla_patch/nvshmem/gpu/kernels/reduction.cuh"

namespace xla_shmem::gpu {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && \
    (!defined(__CUDACC_RTC__) || __CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ > 1)

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

__device__ inline void StorePack(char* to, Pack16 pack, unsigned bytes) {
  StoreBytes(to, pack.low, bytes);
  if (bytes > sizeof(Word)) StoreBytes(to + sizeof(Word), pack.high, bytes - sizeof(Word));
}

// Reduces `bytes` of the staging memory of all PEs from a multiple of 16 on. The result replaces them on all PEs, or is
// stored to `dest`.
template <typename Load, bool kOnAllPes>
XLA_SHMEM_CALLED void ReduceStaged(char* multicast, char* dest, Word bytes) {
  constexpr int kUnroll = 2;
  const Word packed = kOnAllPes                                   ? PadToPack(bytes)
                      : reinterpret_cast<Word>(dest) % kPack == 0 ? bytes / kPack * kPack
                                                                  : 0;
  const auto store = [&](Word at, Pack16 value) {
    if (kOnAllPes) {
      MultimemStore(multicast + at, value);
    } else {
      *reinterpret_cast<Pack16*>(dest + at) = value;
    }
  };
  const Word stride = blockDim.x * kPack;
  Word at = threadIdx.x * kPack;
  for (; at + (kUnroll - 1) * stride < packed; at += kUnroll * stride) {
    Pack16 loaded[kUnroll];
    XLA_SHMEM_UNROLL
    for (int i = 0; i < kUnroll; ++i) loaded[i] = Load::From(multicast + at + i * stride);
    XLA_SHMEM_UNROLL
    for (int i = 0; i < kUnroll; ++i) store(at + i * stride, loaded[i]);
  }
  for (; at < packed; at += stride) store(at, Load::From(multicast + at));
  if constexpr (!kOnAllPes) {
    for (; at < bytes; at += stride) StorePack(dest + at, Load::From(multicast + at), Minimum(bytes - at, kPack));
  }
}

__device__ inline void ReduceStaged(const CollectiveArguments& arguments, char* multicast, char* dest, Word bytes) {
  const bool on_all = arguments.shape == kTwoShot;
#define XLA_SHMEM_REDUCE_ROW(elements_of_row, kind_of_row, registers, operation)       \
  if (arguments.elements == elements_of_row && arguments.kind == k##kind_of_row##Of) { \
    using Load = Load_##elements_of_row##_##kind_of_row;                               \
    return on_all ? ReduceStaged<Load, true>(multicast, dest, bytes)                   \
                  : ReduceStaged<Load, false>(multicast, dest, bytes);                 \
  }
  XLA_SHMEM_MULTIMEM_REDUCTIONS(XLA_SHMEM_REDUCE_ROW)
#undef XLA_SHMEM_REDUCE_ROW
  Trap();
}

// Up to 16 bytes, zeros behind them.
__device__ inline Pack16 LoadPack(const char* from, unsigned bytes) {
  return {LoadBytes(from, bytes), bytes > sizeof(Word) ? LoadBytes(from + sizeof(Word), bytes - sizeof(Word)) : 0};
}

// All threads of the block store bytes together to a multicast address, padded to 16.
XLA_SHMEM_CALLED void StoreToAll(char* multicast, const char* from, Word bytes) {
  const Word packed = reinterpret_cast<Word>(from) % kPack == 0 ? bytes / kPack * kPack : 0;
  XLA_SHMEM_NO_UNROLL
  for (Word at = threadIdx.x * kPack; at < bytes; at += blockDim.x * kPack) {
    MultimemStore(multicast + at, at < packed ? *reinterpret_cast<const Pack16*>(from + at)
                                              : LoadPack(from + at, Minimum(bytes - at, kPack)));
  }
}

// The staging memory of a lane. Its places are counted by turns of the kernel.
class Staging {
 public:
  // `used`: chunks of the kernels before, the same on all PEs.
  __device__ Staging(const CollectiveArguments& arguments, Word used)
      : arguments_(arguments), used_(static_cast<unsigned>(used)) {}

  // The part for a member.
  __device__ char* Own(unsigned turn, int member) const {
    return arguments_.arenas[arguments_.me] + PartOf(turn, member);
  }
  __device__ char* Multicast(unsigned turn, int member) const { return arguments_.multicast + PartOf(turn, member); }

  // The operand's bytes of the chunk for all members.
  template <typename RangeOf>
  __device__ void CopyOperand(unsigned turn, RangeOf range_of) const {
    DivideAmongTeams(arguments_.members, [&](int member, Team team) {
      ForPieces(arguments_, member, range_of, [&](const Piece& piece) {
        CopyTogether(Own(turn, member) + piece.offset, piece.source, piece.bytes, team);
      });
    });
  }
  // The operand's bytes of the chunk to all PEs.
  template <typename RangeOf>
  __device__ void SendOperand(unsigned turn, RangeOf range_of) const {
    ForPieces(arguments_, arguments_.me, range_of, [&](const Piece& piece) {
      StoreToAll(Multicast(turn, arguments_.me) + piece.offset, piece.source, piece.bytes);
    });
  }
  // This PE's part of the chunk, on all PEs or to the results.
  template <typename RangeOf>
  __device__ void Reduce(unsigned turn, RangeOf range_of) const {
    ForPieces(arguments_, arguments_.me, range_of, [&](const Piece& piece) {
      ReduceStaged(arguments_, Multicast(turn, arguments_.me) + piece.offset, piece.dest, piece.bytes);
    });
  }
  // The parts of all members to the results, or of the peers.
  template <bool kOwn, typename RangeOf>
  __device__ void CopyResults(unsigned turn, RangeOf range_of) const {
    DivideAmongTeams(arguments_.members, [&](int member, Team team) {
      if (!kOwn && member == arguments_.me) return;
      ForPieces(arguments_, member, range_of, [&](const Piece& piece) {
        CopyTogether(piece.dest, Own(turn, member) + piece.offset, piece.bytes, team);
      });
    });
  }

 private:
  __device__ Word PartOf(unsigned turn, int member) const {
    const Word place = Word{blockIdx.x} * kLaneSlots + (used_ + turn) % kLaneSlots;
    return arguments_.lanes.staging + (place * arguments_.members + Fresh(member)) * arguments_.lanes.slot_bytes;
  }

  const CollectiveArguments& arguments_;
  const unsigned used_;
};

// An all-reduce or reduce-scatter of all PEs.
__device__ inline void ReduceInSwitch(const CollectiveArguments& arguments, Lane& lane) {
  if (BeginOfLane(arguments) >= EndOfLane(arguments)) return;
  const Word step = arguments.lanes.slot_bytes;
  const bool two_shot = arguments.shape == kTwoShot;
  const Staging staging(arguments, lane.staged());
  lane.AwaitPeers(/*all=*/true, 0);
  XLA_SHMEM_NO_UNROLL
  for (Word at = BeginOfLane(arguments);; at += step) {
    const unsigned turn = lane.posted();
    const bool stages = at < EndOfLane(arguments), reduces = turn != 0 && at - step < EndOfLane(arguments);
    if (stages) staging.CopyOperand(turn, [&](int member) { return ChunkAt(arguments, at, member); });
    if (turn != 0) lane.AwaitPeers(/*all=*/true, turn);
    if (reduces) staging.Reduce(turn - 1, [&](int member) { return ChunkAt(arguments, at - step, member); });
    if (stages || reduces) {
      FenceAliases();
      lane.Post();
    }
    if (two_shot && turn > 1) {
      staging.CopyResults</*kOwn=*/true>(turn - 2,
                                         [&](int member) { return ChunkAt(arguments, at - 2 * step, member); });
    }
    if (!stages && !(two_shot && reduces)) break;
  }
  lane.CountStaged(lane.posted() - 1);
}

// An all-gather of all PEs.
__device__ inline void GatherInSwitch(const CollectiveArguments& arguments, Lane& lane) {
  const Staging staging(arguments, lane.staged());
  RunMove(
      arguments, lane,
      [&](auto range_of) {
        staging.SendOperand(lane.posted(), range_of);
        FenceAliases();
      },
      [&](unsigned message, auto range_of) { staging.CopyResults</*kOwn=*/false>(message - 1, range_of); });
  lane.CountStaged(lane.posted());
}

#else

// The host does not launch them on such GPUs.
__device__ inline void ReduceInSwitch(const CollectiveArguments& /*arguments*/, Lane& /*lane*/) { Trap(); }
__device__ inline void GatherInSwitch(const CollectiveArguments& /*arguments*/, Lane& /*lane*/) { Trap(); }

#endif

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_MULTIMEM_CUH_
