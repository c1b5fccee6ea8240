// Overlapping permutes in two halves (docs/protocol.md, "Split permutes").
//
// The kernel of the start puts the message into a slot of the target, the kernel of the done takes it from there. Each
// message has a slot and words of its own, by its number, so dones may come in any order. Block b of a receiver waits
// for block b of its sender alone, and every block of a sender for all blocks that took the message that was in its
// slot before. The host starts no message before that one's done has been enqueued, on both PEs alike
// (thunks/gpu/split_permutes.h).
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_SPLIT_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_SPLIT_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/copies.cuh"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/nvshmem/gpu/kernels/messages.cuh"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"

namespace xla_shmem::gpu {

class SplitLane : public LaneBase {
 public:
  explicit __device__ SplitLane(const SplitArguments& arguments)
      : LaneBase(arguments, nullptr, 0), message_(arguments) {}

  // All threads call these together.

  // Blocks of the message before had other shares of the slot. Another block of this message may be taken already.
  __device__ void AwaitConsumed(int target) const {
    for (int block = threadIdx.x; block < message_.blocks_before; block += blockDim.x) {
      const Word* const word = WordOf(own_arena(), message_.consumed, block);
      for (unsigned looks = 1; LoadRelaxed(word) < message_.before; ++looks) Heed(looks, target);
      LoadAcquire(word);  // which only grows
    }
    __syncthreads();
  }
  __device__ void AwaitArrived(int source) const {
    const Word expected = TaggedWord(message_.tag, message_.number);
    if (threadIdx.x == 0) {
      AwaitWord</*kPackets=*/false>(source, WordOf(own_arena(), message_.arrived, blockIdx.x), expected);
    }
    __syncthreads();
  }
  // Behind what the block has written to the slot, or read from it.
  __device__ void Post(int target) const {
    Store(WordOf(arguments_.arenas[target], message_.arrived, blockIdx.x), TaggedWord(message_.tag, message_.number));
  }
  __device__ void Release(int source) const {
    Store(WordOf(arguments_.arenas[source], message_.consumed, blockIdx.x), message_.number);
  }

  // Where the bytes of this block are in the slot of `receiver`.
  __device__ char* SlotAt(int receiver) const {
    return arguments_.arenas[receiver] + message_.slot + BeginOfLane(message_);
  }

 private:
  __device__ static Word* WordOf(char* arena, Word words, int block) {
    return reinterpret_cast<Word*>(arena + words) + block;
  }
  __device__ static void Store(Word* word, Word value) {
    __syncthreads();
    if (threadIdx.x == 0) StoreRelease(word, value);
  }

  const SplitArguments& message_;
};

// The start of a permute with a target.
__device__ inline void SendMessage(const SplitArguments& arguments) {
  const SplitLane lane(arguments);
  const int target = arguments.send_to;
  lane.BeginKernel();
  lane.AwaitConsumed(target);
  const auto range_of = [&](int /*member*/) { return Range{BeginOfLane(arguments), EndOfLane(arguments)}; };
  ForPieces(arguments, target, range_of, [&](const Piece& piece) {
    CopyTogether(lane.SlotAt(target) + piece.offset, piece.source, piece.bytes, WholeBlock());
  });
  lane.Post(target);
  lane.EndKernel();
}

// The done: the results are what the source has sent, or this PE's own operands, or zeros.
__device__ inline void ReceiveMessage(const SplitArguments& arguments) {
  const SplitLane lane(arguments);
  const int source = arguments.receive_from;
  lane.BeginKernel();
  const auto range_of = [&](int /*member*/) { return Range{BeginOfLane(arguments), EndOfLane(arguments)}; };
  if (source >= 0) {
    lane.AwaitArrived(source);
    ForPieces(arguments, source, range_of, [&](const Piece& piece) {
      CopyTogether(piece.dest, lane.SlotAt(arguments.me) + piece.offset, piece.bytes, WholeBlock());
    });
    lane.Release(source);
  } else {
    SetOwn(arguments, range_of);
  }
  lane.EndKernel();
}

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_SPLIT_CUH_
