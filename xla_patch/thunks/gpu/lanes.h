// Launches the kernels of collectives (nvshmem/gpu/kernels/kernels.cu), and reads their progress.
#ifndef XLA_SHMEM_THUNKS_GPU_LANES_H_
#define XLA_SHMEM_THUNKS_GPU_LANES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/gpu/arena_layout.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/kernel_operations.h"

namespace xla_shmem::gpu {

// This PE's lanes. Only enqueues. One thread at a time may use it.
class Lanes {
 public:
  // `memory`: local address of the lanes in the symmetric arena, zero on every PE before the first collective.
  Lanes(Device* device, KernelOperations* operations, const LaneLayout& layout, int pe, char* memory);

  // Reductions and all-gathers of all PEs go to the NVLink switch where it has them. `multicast`: address of `memory`
  // on all PEs at once. The layout must have staging memory. All PEs call this before the first collective, or none
  // does.
  void UseMultimem(char* multicast) { multicast_ = multicast; }

  // Enqueues the collective, which CheckGroup accepts. `stream` is the one stream of this use. The ticket has lanes
  // only if a kernel was launched and not with `in_graph`.
  KernelTicket Enqueue(LaneUse use, const GroupArguments& group, CudaStream stream, bool in_graph = false);
  // The same for a permute: one kernel, whether this PE sends, receives, or both.
  KernelTicket Enqueue(LaneUse use, const PermuteArguments& permute, CudaStream stream, bool in_graph = false);
  // Calls with `in_graph` so far, and operations that CUDA graphs have run.
  uint64_t captured() { return set(LaneUse::kInLine).captured; }
  uint64_t finished_in_graphs() {
    const Word finished = ReadProgress(set(LaneUse::kInLine).lanes, kFinished);
    return TagOfWord(finished) - NumberOfWord(finished);
  }
  // For Watchdog::WatchKernels.
  KernelProgress progress(LaneUse use);

  const LaneLayout& layout() const { return layout_; }
  Device& device() const { return *device_; }
  int pe() const { return pe_; }

 private:
  struct Set {
    LaneSet lanes{};
    uint64_t tickets = 0;
    uint64_t captured = 0;
  };

  Set& set(LaneUse use) { return sets_[use == LaneUse::kInLine ? 1 : 0]; }
  // All members exchange messages with this PE, which is one of them.
  void SetExchange(LaneUse use, const std::string& name, uint32_t tag, const std::vector<int>& members,
                   ExchangeArguments* arguments);
  // Numbers the operation that is enqueued.
  KernelTicket SetTicket(LaneUse use, bool in_graph, LaneSet* lanes);
  CollectiveArguments Common(LaneUse use, const GroupArguments& group);
  // Launches kernels for all buffers. `group`: null for a permute.
  KernelTicket EnqueueParts(LaneUse use, const Buffers& buffers, const GroupArguments* group,
                            CollectiveArguments arguments, CudaStream stream, bool in_graph);
  // `peers`: to which a member sends the message, at most.
  void Launch(LaneUse use, CollectiveArguments* arguments, bool may_use_switch, size_t peers, CudaStream stream);
  // The operand's rows are in the result.
  KernelTicket EnqueueRagged(LaneUse use, const GroupArguments& group, CudaStream stream, bool in_graph);

  Device* const device_;
  KernelOperations* const operations_;
  const LaneLayout layout_;
  const int pe_;
  char* const memory_;
  char* multicast_ = nullptr;
  Set sets_[2];
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_LANES_H_
