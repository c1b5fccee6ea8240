// Names of the operations that a PE's kernels run, for what the watchdog says of them, and the kernels' progress.
#ifndef XLA_SHMEM_THUNKS_GPU_KERNEL_OPERATIONS_H_
#define XLA_SHMEM_THUNKS_GPU_KERNEL_OPERATIONS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"

namespace xla_shmem::gpu {

inline Word ReadProgress(const LaneSet& lanes, ProgressWord word) {
  return __atomic_load_n(lanes.progress + word, __ATOMIC_ACQUIRE);
}

// An operation that has been enqueued. Without lanes there is nothing to wait for.
struct KernelTicket {
  const LaneSet* lanes = nullptr;
  uint64_t ticket = 0;

  // Whether the GPU has come to it, or has ended it. Any thread may ask.
  bool IsReached() const { return lanes == nullptr || HasCome(TagOfWord(ReadProgress(*lanes, kOperation))); }
  bool IsFinished() const { return lanes == nullptr || HasCome(NumberOfWord(ReadProgress(*lanes, kFinished))); }

 private:
  // The GPU has the low halves of tickets.
  bool HasCome(unsigned last) const { return static_cast<int32_t>(last - static_cast<uint32_t>(ticket)) >= 0; }
};

// Any thread may use it.
class KernelOperations {
 public:
  explicit KernelOperations(int pe) : pe_(pe) {}

  // A number for ExchangeArguments::operation, the same for the same arguments. `pes`: for which the kernel may wait,
  // and perhaps this one.
  uint64_t NumberOf(const std::string& name, uint32_t tag, const std::vector<int>& pes);

  // For Watchdog::WatchKernels. `words`: LaneSet::progress.
  KernelProgress Progress(Word* words) {
    return {words, [this, words](uint64_t operation) { return Describe(words, operation); }};
  }

 private:
  struct Operation {
    std::string name;
    std::vector<int> peers;
  };

  LateTransfer Describe(Word* words, uint64_t number);

  const int pe_;
  std::mutex mutex_;  // guards the members below
  std::map<std::tuple<std::string, uint32_t, std::vector<int>>, uint64_t> numbers_;
  std::deque<Operation> operations_;  // number n is at n - 1
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_KERNEL_OPERATIONS_H_
