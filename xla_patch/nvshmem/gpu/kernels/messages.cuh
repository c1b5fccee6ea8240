// What the messages of a collective hold, and who their peers are.
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_MESSAGES_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_MESSAGES_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/copies.cuh"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"

namespace xla_shmem::gpu {

// Bytes of a message.
struct Range {
  Word begin;
  Word end;
};

// Of the bytes of this lane, a chunk of a slot's size that begins at `at`, in the message to or from a member.
__device__ inline Word BeginOfLane(const CollectiveArguments& arguments) { return blockIdx.x * arguments.of_lane; }
__device__ inline Word EndOfLane(const CollectiveArguments& arguments) {
  const Word all = arguments.of_member != 0 ? arguments.of_member : arguments.total;
  return Minimum((blockIdx.x + 1) * arguments.of_lane, all);
}
__device__ inline Range ChunkAt(const CollectiveArguments& arguments, Word at, int member) {
  at = Fresh(at);
  const Word offset = member * arguments.of_member;
  const Word end = Minimum(at + arguments.lanes.slot_bytes, EndOfLane(arguments));
  return {Minimum(offset + at, arguments.total), Minimum(offset + end, arguments.total)};
}
// A piece of one part that lies in a range of a message.
struct Piece {
  const char* source;
  char* dest;
  Word offset;  // in the range
  Word bytes;   // 0: there is none
};
__device__ inline Piece PieceOf(const CollectiveArguments& arguments, int index, int member, Range range) {
  const CollectivePart& part = arguments.part[index];
  const Word from = Maximum(range.begin, part.offset);
  const Word to = Minimum(range.end, part.offset + part.bytes);
  if (from >= to) return {nullptr, nullptr, 0, 0};
  const Word in_part = from - part.offset;
  const Word of_member = arguments.part_of_member ? 0 : part.bytes * member;
  return {part.source + in_part + (arguments.source_has_parts ? of_member : 0),
          part.dest + in_part + (arguments.dest_has_parts ? of_member : 0), from - range.begin, to - from};
}

// The pieces of a range of the message from or to a member. `range_of(member)` is asked for each, so that the range
// takes no registers while a piece is copied.
template <typename RangeOf, typename Body>
__device__ inline void ForPieces(const CollectiveArguments& arguments, int member, RangeOf range_of, Body body) {
  const int last = arguments.part_of_member ? member + 1 : arguments.parts;
  XLA_SHMEM_NO_UNROLL
  for (int index = arguments.part_of_member ? member : 0; index < last; ++index) {
    const Piece piece = PieceOf(arguments, index, member, range_of(member));
    if (piece.bytes != 0) body(piece);
  }
}

// Divides `count` members among teams of warps, or among the only team of a small block: `body(i, team)`.
template <typename Body>
__device__ inline void DivideAmongTeams(int count, Body body) {
  constexpr unsigned kWarp = 32;
  const unsigned warps = blockDim.x / kWarp;
  if (count == 0) return;
  const unsigned teams = Minimum(Maximum(warps, 1), count);
  const unsigned size = warps == 0 ? blockDim.x : warps / teams * kWarp;
  const unsigned team = threadIdx.x / size;
  if (team >= teams) return;
  XLA_SHMEM_NO_UNROLL
  for (int i = team; i < count; i += teams) body(i, Team{threadIdx.x - team * size, size});
}

// The peers that a copy goes to or comes from, beginning behind this PE, so that not all PEs write to the same one.
class Peers {
 public:
  // `which`: of ExchangeArguments::send_to.
  __device__ Peers(const ExchangeArguments& arguments, int which)
      : arguments_(arguments),
        only_(which),
        count_(which == kAllMembers                  ? arguments.members - 1
               : which >= 0 && which != arguments.me ? 1
                                                     : 0) {}

  __device__ int count() const { return count_; }
  __device__ int operator[](int i) const {
    if (only_ != kAllMembers) return only_;
    const int member = arguments_.me + 1 + i;
    return member < arguments_.members ? member : member - arguments_.members;
  }

  // Each with a team.
  template <typename Body>
  __device__ void Divide(Body body) const {
    DivideAmongTeams(count_, [&](int i, Team team) { body((*this)[i], team); });
  }

 private:
  const ExchangeArguments& arguments_;
  const int only_;
  const int count_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_MESSAGES_CUH_
