// The device code of xla-shmem: the kernels of the collectives, and a trap that ends a stuck job.
//
// NVRTC compiles it at start for this machine's GPU (python/xla_shmem/gpu/kernels.py). The build puts this file and the
// ones that it includes behind each other, because NVRTC has no files to include (nvrtc.h). The unit tests
// compile the same files for the CPU.
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/nvshmem/gpu/kernels/multimem.cuh"
#include "xla_patch/nvshmem/gpu/kernels/packets.cuh"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"
#include "xla_patch/nvshmem/gpu/kernels/ragged_all_to_all.cuh"
#include "xla_patch/nvshmem/gpu/kernels/reduction.cuh"
#include "xla_patch/nvshmem/gpu/kernels/split.cuh"

namespace xla_shmem::gpu {

// An element for each member: the places that the block copies to, or what it reduces.
union MemberAddresses {
  char* places[kMaxMembers];
  const char* inputs[kMaxMembers];
};

// Reduces what has arrived and this PE's own operands into the results. `arrival_of(member)`: where a peer's bytes of
// the range are. `inputs`: shared by the block, an element for each member.
template <typename ArrivalOf, typename RangeOf>
__device__ inline void ReduceArrivals(const CollectiveArguments& arguments, ArrivalOf arrival_of, RangeOf range_of,
                                      const char** inputs) {
  ForPieces(arguments, arguments.me, range_of, [&](const Piece& piece) {
    for (int member = threadIdx.x; member < arguments.members; member += blockDim.x) {
      inputs[member] = member == arguments.me ? piece.source : arrival_of(member) + piece.offset;
    }
    __syncthreads();
    Reduce(arguments.elements, arguments.kind, inputs, arguments.members, piece.bytes, piece.dest);
    __syncthreads();  // all have read the inputs
  });
}

// A lane of `reduce`. With two shots it sends in turn t the operands of chunk t and the results of chunk t - 1, and
// takes the results of chunk t - 2, which the peers posted behind the operands of chunk t - 1.
__device__ inline void RunReduction(const CollectiveArguments& arguments, Lane& lane, MemberAddresses& addresses) {
  const Word step = arguments.lanes.slot_bytes;
  if (BeginOfLane(arguments) >= EndOfLane(arguments)) return;
  XLA_SHMEM_NO_UNROLL
  for (Word at = BeginOfLane(arguments);; at += step) {
    const unsigned arrived = lane.posted();
    const bool has_results = arguments.shape == kTwoShot && arrived > 1;
    lane.AwaitPeers(/*all=*/true, arrived);
    if (at < EndOfLane(arguments)) {
      Send(arguments, lane, [&](int member) { return ChunkAt(arguments, at, member); }, addresses.places);
      lane.Post();
    }
    if (at != BeginOfLane(arguments) && at - step < EndOfLane(arguments)) {
      const auto range_of = [&](int member) { return ChunkAt(arguments, at - step, member); };
      const auto arrival_of = [&](int member) { return lane.OwnSlot(member, has_results ? arrived - 1 : arrived); };
      ReduceArrivals(arguments, arrival_of, range_of, addresses.inputs);
      if (arguments.shape == kTwoShot) {
        lane.AwaitPeers(/*all=*/true, lane.posted());
        CopyToAll</*kResults=*/true>(arguments, lane, Peers(arguments, kAllMembers), range_of, addresses.places);
        lane.Post();
      }
    }
    if (has_results) {
      Take(arguments, lane, arrived, [&](int member) { return ChunkAt(arguments, at - 2 * step, member); });
    }
    if (at >= EndOfLane(arguments) + (arguments.shape == kTwoShot ? step : 0)) return;
  }
}

// `run(lane)`: what a lane with slots does.
template <typename Run>
__device__ inline void RunLane(const CollectiveArguments& arguments, Run run) {
  __shared__ Word messages[kMaxMembers];
  Lane lane(arguments, messages);
  lane.Begin();
  run(lane);
  lane.End();
}

// Two kernels, so that moves need no registers of reductions.
extern "C" __global__ void __launch_bounds__(kMoveThreads, 2) move(const CollectiveArguments arguments) {
  __shared__ MemberAddresses addresses;
  RunLane(arguments, [&](Lane& lane) {
    RunMove(
        arguments, lane, [&](auto range_of) { Send(arguments, lane, range_of, addresses.places); },
        [&](unsigned message, auto range_of) { Take(arguments, lane, message, range_of); });
  });
}
extern "C" __global__ void __launch_bounds__(kOtherThreads, 4) reduce(const CollectiveArguments arguments) {
  __shared__ MemberAddresses addresses;
  RunLane(arguments, [&](Lane& lane) { RunReduction(arguments, lane, addresses); });
}

// A lane of `move_packets` and `reduce_packets`. Its share is one message.
template <bool kReduces>
__device__ inline void RunPacketLane(const CollectiveArguments& arguments, char* staging, const char** inputs) {
  __shared__ Word messages[kMaxMembers];
  PacketLane lane(arguments, messages);
  lane.Begin();
  if (BeginOfLane(arguments) < EndOfLane(arguments)) {
    const auto range_of = [&](int /*member*/) { return Range{BeginOfLane(arguments), EndOfLane(arguments)}; };
    lane.BeginMessages();
    SendPackets(arguments, lane, range_of);
    __syncthreads();  // results may be operands
    TakePackets<kReduces>(arguments, lane, range_of, staging);
    if (kReduces) {
      ReduceArrivals(arguments, [&](int member) { return Staged(arguments, staging, member); }, range_of, inputs);
    } else {
      SetOwn(arguments, range_of);
    }
    lane.EndMessages();
  }
  lane.End();
}

extern "C" __global__ void __launch_bounds__(kMoveThreads, 2) move_packets(const CollectiveArguments arguments) {
  RunPacketLane</*kReduces=*/false>(arguments, nullptr, nullptr);
}
extern "C" __global__ void __launch_bounds__(kOtherThreads, 4) reduce_packets(const CollectiveArguments arguments) {
  __shared__ MemberAddresses addresses;
  __shared__ Pack16 staging[kPacketStagingBytes / sizeof(Pack16)];
  RunPacketLane</*kReduces=*/true>(arguments, reinterpret_cast<char*>(staging), addresses.inputs);
}

// NVRTC 12.1 cannot compile sums of f16 and bf16 that accumulate in f32. Without this kernel nothing goes to the
// switch.
#if !defined(__CUDACC_RTC__) || __CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ > 1
// An all-reduce or reduce-scatter by multimem instructions, with the same lanes.
extern "C" __global__ void __launch_bounds__(kOtherThreads, 4) switch_reduction(const CollectiveArguments arguments) {
  RunLane(arguments, [&](Lane& lane) { ReduceInSwitch(arguments, lane); });
}
// An all-gather by multimem.st.
extern "C" __global__ void __launch_bounds__(kMoveThreads, 2) switch_gather(const CollectiveArguments arguments) {
  RunLane(arguments, [&](Lane& lane) { GatherInSwitch(arguments, lane); });
}
#endif

extern "C" __global__ void __launch_bounds__(kOtherThreads, 4) ragged_all_to_all(const RaggedArguments arguments) {
  __shared__ RaggedLane::State state;
  RaggedLane(arguments, &state).Run();
}

extern "C" __global__ void __launch_bounds__(kMoveThreads, 2) send_message(const SplitArguments arguments) {
  SendMessage(arguments);
}
extern "C" __global__ void __launch_bounds__(kMoveThreads, 2) receive_message(const SplitArguments arguments) {
  ReceiveMessage(arguments);
}

// Ends every stream of the context with an error, because a stuck wait cannot end itself.
extern "C" __global__ void trap() { Trap(); }

}  // namespace xla_shmem::gpu
