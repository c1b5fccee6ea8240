// Launches the kernels of collectives (nvshmem/gpu/kernels/kernels.cu), and reads their progress.
#ifndef XLA_SHMEM_THUNKS_GPU_LANES_H_
#define XLA_SHMEM_THUNKS_GPU_LANES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/gpu/arena_layout.h"
#include "xla_patch/thunks/gpu/collectives.h"

namespace xla_shmem::gpu {

// This PE's lanes. Only enqueues. One thread at a time may use it; the watchdog's thread may read beside it.
class Lanes {
 public:
  // `memory`: local address of the lanes in the symmetric arena, zero on every PE before the first collective.
  Lanes(Device* device, const LaneLayout& layout, int pe, char* memory);

  // Reductions and all-gathers of all PEs go to the NVLink switch where it has them. `multicast`: address of `memory`
  // on all PEs at once. The layout must have staging memory. All PEs call this before the first collective, or none
  // does.
  void UseMultimem(char* multicast) { multicast_ = multicast; }

  // Enqueues the collective, which CheckGroup accepts. `stream` is the one stream of this use. Returns the operation's
  // ticket for HasReached and HasFinished, 0 if there is nothing to wait for. With `in_graph` it has no ticket.
  uint64_t Enqueue(LaneUse use, const GroupArguments& group, CudaStream stream, bool in_graph = false);
  // The same for a permute: one kernel, whether this PE sends, receives, or both.
  uint64_t Enqueue(LaneUse use, const PermuteArguments& permute, CudaStream stream, bool in_graph = false);
  // Whether the GPU has reached, or finished, the operation with this ticket.
  bool HasReached(LaneUse use, uint64_t ticket) { return HasCome(TagOfWord(ProgressOf(use, kOperation)), ticket); }
  bool HasFinished(LaneUse use, uint64_t ticket) { return HasCome(NumberOfWord(ProgressOf(use, kFinished)), ticket); }
  // Calls with `in_graph` so far, and operations that CUDA graphs have run.
  uint64_t captured() { return set(LaneUse::kInLine).captured; }
  uint64_t finished_in_graphs() {
    const Word finished = ProgressOf(LaneUse::kInLine, kFinished);
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
  // What the watchdog says of an operation.
  struct Operation {
    std::string name;
    std::vector<int> peers;
  };

  Set& set(LaneUse use) { return sets_[use == LaneUse::kInLine ? 1 : 0]; }
  // All members exchange messages with this PE, which is one of them.
  void SetExchange(LaneUse use, const std::string& name, uint32_t tag, const std::vector<int>& members,
                   ExchangeArguments* arguments);
  Word ProgressOf(LaneUse use, ProgressWord word);
  // The GPU has the low halves of tickets.
  static bool HasCome(unsigned last, uint64_t ticket) {
    return ticket == 0 || static_cast<int32_t>(last - static_cast<uint32_t>(ticket)) >= 0;
  }
  // Numbers the operation that is enqueued.
  void SetTicket(LaneUse use, bool in_graph, LaneSet* lanes);
  CollectiveArguments Common(LaneUse use, const GroupArguments& group);
  // Launches kernels for all buffers. `group`: null for a permute. Returns the ticket.
  uint64_t EnqueueParts(LaneUse use, const Buffers& buffers, const GroupArguments* group, CollectiveArguments arguments,
                        CudaStream stream, bool in_graph);
  // `peers`: to which a member sends the message, at most.
  void Launch(CollectiveArguments* arguments, bool may_use_switch, size_t peers, CudaStream stream);
  // The operand's rows are in the result.
  uint64_t EnqueueRagged(LaneUse use, const GroupArguments& group, CudaStream stream, bool in_graph);
  uint64_t NumberOf(const std::string& name, uint32_t tag, const std::vector<int>& members);
  LateTransfer Describe(LaneUse use, uint64_t operation);

  Device* const device_;
  const LaneLayout layout_;
  const int pe_;
  char* const memory_;
  char* multicast_ = nullptr;
  Set sets_[2];

  std::mutex mutex_;                                              // guards the members below
  std::map<std::pair<std::string, uint32_t>, uint64_t> numbers_;  // by name and tag
  std::deque<Operation> operations_;                              // number n is at n - 1
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_LANES_H_
