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

// The bytes of the messages that this lane moves. With two shots, member j reduces bytes [j * step, (j + 1) * step). In
// memory of the block, because it would take registers.
struct LaneShare {
  Word total;
  Word step;  // between members
  Word slot_bytes;
  Word begin;
  Word end;

  __device__ void Set(const CollectiveArguments& arguments) {
    const bool two_shot = arguments.shape == kTwoShot;
    total = arguments.total;
    slot_bytes = arguments.lanes.slot_bytes;
    const Word share = two_shot ? PadToPack((total + arguments.members - 1) / arguments.members) : total;
    step = two_shot ? share : 0;
    const Word of_lane = PadToPack((share + gridDim.x - 1) / gridDim.x);
    begin = blockIdx.x * of_lane;
    end = Minimum(begin + of_lane, share);
  }

  // A chunk of a slot's size, of what goes to or comes from a member.
  __device__ Range ChunkAt(Word at, int member) const {
    const Word offset = member * step;
    return {Minimum(offset + at, total), Minimum(offset + Minimum(at + slot_bytes, end), total)};
  }
};

// A piece of one part that lies in a range of a message.
struct Piece {
  const char* source;
  char* dest;
  Word offset;  // in the range
  Word bytes;   // 0: there is none
};

// Walks the pieces of the message from or to a member.
class Pieces {
 public:
  __device__ Pieces(const CollectiveArguments& arguments, int member, Range range)
      : arguments_(arguments),
        begin_(range.begin),
        end_(range.end),
        member_(arguments.part_of_member ? 0 : member),
        part_(arguments.part_of_member ? member : 0),
        last_(arguments.part_of_member ? member + 1 : arguments.parts) {}

  __device__ Piece Next() {
    while (part_ < last_ && offset_ < end_) {
      const CollectivePart& part = arguments_.part[part_++];
      const Word offset = offset_;
      offset_ += PadToPack(part.bytes);
      const Word from = Maximum(begin_, offset);
      const Word to = Minimum(end_, offset + part.bytes);
      if (from >= to) continue;
      const Word in_part = from - offset;
      const Word of_member = part.bytes * member_;
      return {part.source + in_part + (arguments_.source_has_parts ? of_member : 0),
              part.dest + in_part + (arguments_.dest_has_parts ? of_member : 0), from - begin_, to - from};
    }
    return {nullptr, nullptr, 0, 0};
  }

 private:
  const CollectiveArguments& arguments_;
  const Word begin_;
  const Word end_;
  const Word member_;
  int part_;
  const int last_;
  Word offset_ = 0;  // of part_ in the message
};

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

  // Divides the peers among teams of warps, or among the only team of a small block.
  template <typename Body>
  __device__ void Divide(Body body) const {
    constexpr unsigned kWarp = 32;
    const unsigned warps = blockDim.x / kWarp;
    if (count_ == 0) return;
    const unsigned teams = Minimum(Maximum(warps, 1), count_);
    const unsigned size = warps == 0 ? blockDim.x : warps / teams * kWarp;
    const unsigned team = threadIdx.x / size;
    if (team >= teams) return;
    for (int i = team; i < count_; i += teams) body((*this)[i], Team{threadIdx.x - team * size, size});
  }

 private:
  const ExchangeArguments& arguments_;
  const int only_;
  const int count_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_MESSAGES_CUH_
