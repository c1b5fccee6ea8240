// How the kernel of a collective is launched. Every member computes the same, from the same arguments.
#ifndef XLA_SHMEM_THUNKS_GPU_LAUNCH_FORM_H_
#define XLA_SHMEM_THUNKS_GPU_LAUNCH_FORM_H_

#include <cstddef>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/arena_layout.h"

namespace xla_shmem::gpu {

// An all-reduce of at most this many bytes is one-shot: each member sends its operand to all. A two-shot one sends
// less but takes one more exchange of signals, in the time of which NVLink moves about 1 MiB. To be tuned on a GPU.
size_t OneShotBytes(size_t members);

// Parts of a message begin at such bytes.
inline size_t Padded(size_t bytes) { return DivideUp(bytes, kPackBytes) * kPackBytes; }

// All-gathers of so many members may go through the switch. It brings each PE n operands, its own too, and not n - 1,
// so with few members it is the slower way; but a lane then stores once, and takes chunks while the switch sends
// others. By the constants of tools/kernel_estimate.py large ones take as long with 4 members, 15 % less with 8, a
// third less with 72; those of some MiB 10 % more with 4, 7 % more with 8, 15 % less with 72.
inline constexpr size_t kLeastGatherInSwitch = 4;

struct LaunchForm {
  bool in_packets;
  bool in_switch;
  bool shares_slots;
  size_t of_member;  // bytes that each member reduces, 0 without two shots
  size_t of_lane;    // bytes of a message that a block carries
  unsigned blocks;
  unsigned threads;  // of a block

  // What a lane sends to a member at once, but for packets.
  size_t ChunkBytes(const LaneLayout& layout) const {
    return in_switch ? layout.staged_bytes() : shares_slots ? layout.shared_slot_bytes() : layout.slot_bytes();
  }
};

// Of messages of `total` bytes, a multiple of 16. `may_use_switch`: it can do the reduction, or the message goes to all
// PEs. `peers`: to which a member sends one, at most.
LaunchForm FormOf(const LaneLayout& layout, CollectiveShape shape, bool may_use_switch, size_t total, size_t members,
                  size_t peers);

// Of the halves of a split permute.
LaunchForm SplitFormOf(const SplitLayout& layout, size_t total);

// Of a ragged all-to-all; `bytes`: of a message if all are equal.
LaunchForm RaggedFormOf(const LaneLayout& layout, size_t bytes, size_t members);

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_LAUNCH_FORM_H_
