// The ragged all-to-all: rows of any number go to each member. Only the device knows how many, so the messages say what
// they hold (docs/protocol.md, "Kernels").
#ifndef XLA_SHMEM_NVSHMEM_GPU_KERNELS_RAGGED_ALL_TO_ALL_CUH_
#define XLA_SHMEM_NVSHMEM_GPU_KERNELS_RAGGED_ALL_TO_ALL_CUH_

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/kernels/exchange.cuh"
#include "xla_patch/nvshmem/gpu/kernels/platform.cuh"

namespace xla_shmem::gpu {

// A message begins with a MessageHead. Each of its pieces is a PieceHead and the bytes, padded to 16.
struct alignas(16) MessageHead {
  Word pieces;
  Word last;  // 1: the sender's lane has nothing more for this member
};

struct alignas(16) PieceHead {
  Word at;  // in the result
  Word bytes;
};

class RaggedLane {
 public:
  // Shared by the block, an element for each member.
  struct State {
    Word messages[kMaxMembers];
    Word received[kMaxMembers];  // bytes
    // What this lane sends next: the slice, `slices` once all is sent, and bytes of it that are sent. And the same
    // behind the message that is packed.
    int slice[kMaxMembers], next_slice[kMaxMembers];
    Word done[kMaxMembers], next_done[kMaxMembers];
    unsigned last[kMaxMembers];  // the member's last message, 0 until it has come
    bool open[kMaxMembers];      // the two exchange another message, or one has come that is not unpacked
    bool closes[kMaxMembers];    // the two have sent their last messages
  };

  __device__ RaggedLane(const RaggedArguments& arguments, State* state)
      : arguments_(arguments), lane_(arguments, state->messages), state_(*state) {}

  __device__ void Run() {
    lane_.Begin();
    Prepare();
    while (AnyOpen()) Round();
    lane_.ForPeers([&](int member) {
      if (state_.received[member] != Announced(member)) Refuse(kOtherSizes, member);
    });
    CopyOwnRows();
    lane_.LaneBase::End();
  }

 private:
  __device__ Word Index(int member, int slice) const { return Word(member) * arguments_.slices + slice; }
  __device__ Word RowsTo(int member, int slice) const { return arguments_.send_sizes[Index(member, slice)]; }

  // Bytes of a slice that go through this lane. Small slices go through one lane each, in turns.
  __device__ Range Share(Word bytes, int slice) const {
    constexpr Word kLeast = 1024;
    const Word share = Maximum(kLeast, PadToPack((bytes + gridDim.x - 1) / gridDim.x));
    const Word begin = (blockIdx.x + Word(slice)) % gridDim.x * share;
    return {Minimum(begin, bytes), Minimum(begin + share, bytes)};
  }

  // Bytes that this lane gets from a member, by the sizes that the program gave this PE.
  __device__ Word Announced(int member) const {
    Word bytes = 0;
    for (int slice = 0; slice < arguments_.slices; ++slice) {
      const Word rows = arguments_.receive_sizes[Index(member, slice)];
      const Range share = Share(rows * arguments_.row_bytes, slice);
      bytes += share.end - share.begin;
    }
    return bytes;
  }

  __device__ void Refuse(Fault fault, int member) const { lane_.Refuse(fault, arguments_.pes[member]); }

  // Slices must lie in the buffers, which have the same shape on every PE. A slice without rows may have any offset.
  __device__ void Check(int member, int slice) const {
    const Word index = Index(member, slice);
    const Word rows = RowsTo(member, slice);
    const Word from = arguments_.input_offsets[index];
    const Word to = arguments_.output_offsets[index];
    if (rows != 0 && (from > arguments_.input_rows || rows > arguments_.input_rows - from)) {
      Refuse(kBeyondInput, member);
    }
    if (rows != 0 && (to > arguments_.output_rows || rows > arguments_.output_rows - to)) Refuse(kBeyondOutput, member);
    if (arguments_.receive_sizes[index] > arguments_.output_rows) Refuse(kBeyondOutput, member);
    if (member == arguments_.me && rows != arguments_.receive_sizes[index]) Refuse(kOtherSizes, member);
  }

  __device__ void Prepare() {
    const int count = arguments_.members * arguments_.slices;
    for (int i = threadIdx.x; i < count; i += blockDim.x) Check(i / arguments_.slices, i % arguments_.slices);
    for (int member = threadIdx.x; member < arguments_.members; member += blockDim.x) {
      state_.next_done[member] = state_.done[member] = state_.received[member] = 0;
      state_.next_slice[member] = state_.slice[member] = 0;
      state_.last[member] = 0;
      state_.open[member] = member != arguments_.me;
      state_.closes[member] = false;
    }
    __syncthreads();
  }

  __device__ bool AnyOpen() const {
    for (int member = 0; member < arguments_.members; ++member) {
      if (state_.open[member]) return true;
    }
    return false;
  }

  // Calls `body` for each open member, with a team of its own.
  template <typename Body>
  __device__ void ForOpen(Body body) const {
    Peers(arguments_, kAllMembers).Divide([&](int member, Team team) {
      if (state_.open[member]) body(member, team);
    });
  }
  // The same, with the members divided among the threads.
  template <typename Body>
  __device__ void DivideOpen(Body body) const {
    lane_.ForPeers([&](int member) {
      if (state_.open[member]) body(member);
    });
  }

  // One message to each open member, behind which that of the round before from it is unpacked. Both sides of a pair
  // close it behind the same message.
  __device__ void Round() {
    DivideOpen([&](int member) {
      lane_.Await(member, lane_.posted());
      Hear(member);
    });
    __syncthreads();
    ForOpen([&](int member, Team team) {
      if (state_.slice[member] < arguments_.slices) Pack(member, team);
    });
    __syncthreads();
    DivideOpen([&](int member) {
      state_.slice[member] = state_.next_slice[member];
      state_.done[member] = state_.next_done[member];
      if (!state_.closes[member]) lane_.PostTo(member);
    });
    ForOpen([&](int member, Team team) {
      const unsigned last = state_.last[member];
      if (lane_.posted() != 0 && (last == 0 || last == lane_.posted())) Unpack(member, team);
    });
    __syncthreads();
    DivideOpen([&](int member) {
      if (!state_.closes[member]) return;
      lane_.Settle(member);
      state_.open[member] = false;
    });
    lane_.CountMessage();
    __syncthreads();
  }

  // The message of the round before has come from the member.
  __device__ void Hear(int member) {
    if (lane_.posted() == 0) return;
    if (state_.last[member] == 0 && HeadOf(member).last != 0) state_.last[member] = lane_.posted();
    state_.closes[member] = state_.last[member] != 0 && state_.slice[member] == arguments_.slices;
  }
  __device__ const MessageHead& HeadOf(int member) const {
    return *reinterpret_cast<const MessageHead*>(lane_.OwnSlot(member, lane_.posted()));
  }

  // Fills the slot at the member with what goes there next.
  __device__ void Pack(int member, Team team) {
    char* const slot = lane_.SlotAt(member);
    int slice = state_.slice[member];
    Word done = state_.done[member];
    unsigned offset = sizeof(MessageHead);
    unsigned pieces = 0;
    while (slice < arguments_.slices) {
      const Range share = Share(RowsTo(member, slice) * arguments_.row_bytes, slice);
      const Word begin = share.begin + done;
      if (begin == share.end) {
        ++slice;
        done = 0;
        continue;
      }
      if (offset + sizeof(PieceHead) >= arguments_.lanes.slot_bytes) break;
      const Word bytes = Minimum(share.end - begin, arguments_.lanes.slot_bytes - offset - sizeof(PieceHead));
      if (team.rank == 0) *reinterpret_cast<PieceHead*>(slot + offset) = {ResultOffset(member, slice) + begin, bytes};
      CopyTogether(slot + offset + sizeof(PieceHead), Source(member, slice) + begin, bytes, team);
      offset += static_cast<unsigned>(sizeof(PieceHead) + PadToPack(bytes));
      done += bytes;
      ++pieces;
    }
    if (team.rank != 0) return;
    *reinterpret_cast<MessageHead*>(slot) = {pieces, Word{slice == arguments_.slices}};
    state_.next_slice[member] = slice;
    state_.next_done[member] = done;
  }

  // Copies what the member's message holds to the result.
  __device__ void Unpack(int member, Team team) {
    const char* const slot = lane_.OwnSlot(member, lane_.posted());
    const auto pieces = static_cast<unsigned>(HeadOf(member).pieces);
    unsigned offset = sizeof(MessageHead);
    for (unsigned i = 0; i < pieces; ++i) {
      const PieceHead piece = *reinterpret_cast<const PieceHead*>(slot + offset);
      CopyTogether(arguments_.output + piece.at, slot + offset + sizeof(PieceHead), piece.bytes, team);
      offset += static_cast<unsigned>(sizeof(PieceHead) + PadToPack(piece.bytes));
      if (team.rank == 0) state_.received[member] += piece.bytes;
    }
  }

  __device__ void CopyOwnRows() const {
    for (int slice = 0; slice < arguments_.slices; ++slice) {
      const Range share = Share(RowsTo(arguments_.me, slice) * arguments_.row_bytes, slice);
      char* const to = arguments_.output + ResultOffset(arguments_.me, slice);
      const char* const from = Source(arguments_.me, slice);
      const Word step = arguments_.lanes.slot_bytes;
      for (Word at = share.begin; at < share.end; at += step) {
        CopyTogether(to + at, from + at, Minimum(step, share.end - at), WholeBlock());
      }
    }
  }

  __device__ const char* Source(int member, int slice) const {
    return arguments_.input + arguments_.input_offsets[Index(member, slice)] * arguments_.row_bytes;
  }
  __device__ Word ResultOffset(int member, int slice) const {
    return arguments_.output_offsets[Index(member, slice)] * arguments_.row_bytes;
  }

  const RaggedArguments& arguments_;
  Lane lane_;
  State& state_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_NVSHMEM_GPU_KERNELS_RAGGED_ALL_TO_ALL_CUH_
