// The device code of xla-shmem: the kernels of the collectives, and a trap that ends a stuck job.
//
// NVRTC compiles it at start for this machine's GPU (python/xla_shmem/gpu/kernels.py). The build puts this file and the
// ones that it includes behind each other, because NVRTC has no files to include (kernel_source.h). The unit tests
// compile the same files for the CPU.
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/nvshmem/gpu/kernels/multimem.cuh"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"
#include "xla_patch/nvshmem/gpu/kernels/ragged_all_to_all.cuh"
#include "xla_patch/nvshmem/gpu/kernels/reduction.cuh"

namespace xla_shmem::gpu {

// Reduces what has arrived and this PE's own operands into the results.
__device__ inline void ReduceArrivals(const CollectiveArguments& arguments, const Lane& lane, Range range) {
  __shared__ const char* inputs[kMaxMembers];
  Pieces pieces(arguments, arguments.me, range);
  for (Piece piece = pieces.Next(); piece.bytes != 0; piece = pieces.Next()) {
    for (int member = threadIdx.x; member < arguments.members; member += blockDim.x) {
      inputs[member] = member == arguments.me ? piece.source : lane.OwnSlot(member) + piece.offset;
    }
    __syncthreads();
    Reduce(arguments.elements, arguments.kind, inputs, arguments.members, piece.bytes, piece.dest);
    __syncthreads();
  }
}

__device__ inline void ClearResults(const CollectiveArguments& arguments, Range range) {
  Pieces pieces(arguments, arguments.me, range);
  for (Piece piece = pieces.Next(); piece.bytes != 0; piece = pieces.Next()) ClearTogether(piece.dest, piece.bytes);
}

__device__ inline bool Takes(const CollectiveArguments& arguments, Step step) {
  switch (step) {
    case kShare:
      return arguments.shape == kTwoShot;
    case kTake:
      return arguments.shape != kReduce;
    case kOwn:
      return arguments.keeps_own;
    default:
      return true;
  }
}

// Every collective of equal parts. Block b is lane b; each lane has its share of the bytes, and moves it in chunks of a
// slot.
extern "C" __global__ void __launch_bounds__(512) collective(const CollectiveArguments arguments) {
  __shared__ Word messages[kMaxMembers];
  Lane lane(arguments, messages);
  lane.Begin();
  const LaneShare share(arguments);
  for (Word begin = share.begin(); begin < share.end(); begin += arguments.lanes.slot_bytes) {
    const auto range_of = [&](int member) { return share.ChunkAt(begin, member); };
    // One loop, because each call of CopyStep is much code.
    XLA_SHMEM_NO_UNROLL
    for (int number = kSend; number <= kOwn; ++number) {
      const Step step = static_cast<Step>(number);
      if (!Takes(arguments, step)) continue;
      if (step == kSend) lane.AwaitSlots();
      CopyStep(arguments, lane, step, range_of);
      if (step != kSend && step != kShare) continue;
      lane.Post();
      lane.AwaitArrivals();
      if (step == kSend && arguments.shape != kMove) ReduceArrivals(arguments, lane, range_of(arguments.me));
    }
    if (arguments.clears) ClearResults(arguments, range_of(arguments.me));
  }
  lane.End();
}

// An all-reduce or reduce-scatter by multimem instructions, with the lanes of `collective`.
extern "C" __global__ void __launch_bounds__(512) switch_reduction(const CollectiveArguments arguments) {
  __shared__ Word messages[kMaxMembers];
  Lane lane(arguments, messages);
  lane.Begin();
  ReduceInSwitch(arguments, lane);
  lane.End();
}

extern "C" __global__ void __launch_bounds__(512) ragged_all_to_all(const RaggedArguments arguments) {
  __shared__ RaggedLane::State state;
  RaggedLane(arguments, &state).Run();
}

// Ends every stream of the context with an error, because a stuck wait cannot end itself.
extern "C" __global__ void trap() { Trap(); }

}  // namespace xla_shmem::gpu
