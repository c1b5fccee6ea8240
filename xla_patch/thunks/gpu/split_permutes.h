// Overlapping permutes in two halves: the start sends and the done receives, each by one kernel on XLA's stream
// (nvshmem/gpu/kernels/split.cuh; docs/protocol.md, "Split permutes"). No event is needed, and between the two no
// multiprocessor waits for a late PE.
//
// Message m from a PE to another goes through slot m mod K of the pair. Its start waits until the done of the target
// has taken the message that was there. If that done came after this start, both PEs could wait for each other. So a
// message gets a slot only if the done of the one before has been enqueued. PEs enqueue the starts and dones of a pair
// in one order, so both find the same. Without a slot the message goes through the lanes.
#ifndef XLA_SHMEM_THUNKS_GPU_SPLIT_PERMUTES_H_
#define XLA_SHMEM_THUNKS_GPU_SPLIT_PERMUTES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/gpu/arena_layout.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/kernel_operations.h"

namespace xla_shmem::gpu {

// This PE's split permutes. Only enqueues. One thread at a time may use it.
class SplitPermutes {
 public:
  // `memory`: local address of the slots in the symmetric arena, zero on every PE before the first message. `messages`:
  // how many of each pair count as taken already; a test that uses it also sets the words to it.
  SplitPermutes(Device* device, KernelOperations* operations, Watchdog* watchdog, const SplitLayout& layout, int pe,
                char* memory, uint64_t messages = 0);

  // Whether a message of these buffers fits into a slot, and a launch.
  bool Fits(const Buffers& buffers) const;

  // A permute between its start and its done.
  struct Started {
    PermuteArguments permute;
    std::optional<uint64_t> sent, received;  // numbers of the messages, counted from 0
    CudaStream stream;                       // of the start
    KernelTicket ticket{};                   // of the start's kernel
  };
  // Enqueues the kernel of the start, if there is a message to send.
  Started Start(const PermuteArguments& permute, CudaStream stream);
  // The ends whose message has no slot, if there are any: the lanes have to carry it.
  std::optional<PermuteArguments> RestOf(const Started& started) const;
  // Enqueues the kernel of the done, if there is anything to do. Returns the ticket of the permute's last kernel. What
  // RestOf says has to be joined before.
  KernelTicket Finish(const Started& started, CudaStream stream);

 private:
  // Messages between this PE and another, in one direction.
  struct Direction {
    struct Slot {
      bool in_use = false;  // by a message whose done has not been enqueued
      unsigned blocks = 0;  // of the last message
    };
    uint64_t messages = 0;
    std::vector<Slot> slots;

    Slot& Of(uint64_t message) { return slots[message % slots.size()]; }
  };
  // Kernels of one stream run one after the other, so they share words of progress.
  struct Stream {
    CudaStream stream = nullptr;
    LaneSet lanes{};  // without progress: no stream has used it yet
    uint64_t tickets = 0;
  };

  // The number of the direction's next message; none if it has no slot.
  static std::optional<uint64_t> Claim(Direction& direction);
  Stream& StateOf(CudaStream stream);
  // `peer`: the other PE of the message, -1: there is none.
  KernelTicket Launch(Device::Half half, const PermuteArguments& permute, int peer, uint64_t message,
                      CudaStream stream);

  Device* const device_;
  KernelOperations* const operations_;
  Watchdog* const watchdog_;
  const SplitLayout layout_;
  const int pe_;
  char* const memory_;
  std::vector<Direction> to_, from_;  // by the other PE
  std::array<Stream, SplitLayout::kStreams> streams_;
  size_t next_stream_ = 0;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_SPLIT_PERMUTES_H_
