// Starts, joins and watches the collectives of one PE.
//
// Small permutes are split: Start* sends and Finish receives, on XLA's stream. Large ones run on two streams for sends
// and one for receives; other collectives are kernels on a fourth one. Each runs them in the order of the starts. There
// Start* forks from XLA's stream and Finish joins it again, so compute on XLA's stream overlaps with the transfer.
// RunPermute and RunGroup are kernels, copies and fills on XLA's stream itself. CUDA graphs may hold these, also in
// loops and branches.
//
// Errors name the operation. The watchdog reports errors that show later, such as a peer that never arrives.
#ifndef XLA_SHMEM_THUNKS_GPU_TRANSFERS_H_
#define XLA_SHMEM_THUNKS_GPU_TRANSFERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/gpu/collective_permute.h"
#include "xla_patch/thunks/gpu/collectives.h"
#include "xla_patch/thunks/gpu/lanes.h"
#include "xla_patch/thunks/gpu/pair_rings.h"
#include "xla_patch/thunks/gpu/split_permutes.h"
#include "xla_patch/thunks/gpu/timeline.h"
#include "xla_patch/types/gpu_permute.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::gpu {

// One execution of one operation on this PE, to pair a done with its start.
struct TransferKey {
  uint64_t operation;
  int64_t run;
  bool operator<(const TransferKey& other) const {
    return operation != other.operation ? operation < other.operation : run < other.run;
  }
};

class Transfers {
 public:
  // What these point to must outlive this. `permutes`: the same on all PEs.
  Transfers(PairRings* rings, Lanes* lanes, SplitPermutes* splits, Watchdog* watchdog, Timeline* timeline,
            GpuPermute permutes);

  Status StartPermute(const TransferKey& key, const PermuteArguments& permute, CudaStream stream);
  // All collectives of groups.
  Status StartGroup(const TransferKey& key, const GroupArguments& group, CudaStream stream);
  // Joins the transfer that was started last under `key`.
  Status Finish(const TransferKey& key, const std::string& name, CudaStream stream);

  // Without a start and a done; may be captured into a CUDA graph. A permute is a kernel, whatever its size.
  Status RunPermute(const PermuteArguments& permute, CudaStream stream);
  Status RunGroup(const GroupArguments& group, CudaStream stream);

  // One-call operations that were captured so far, and operations that CUDA graphs have run. The device counts the
  // latter, because a graph's launch calls no method. Operations of one member do not count.
  struct InGraphs {
    uint64_t captured;
    uint64_t run;
  };
  InGraphs in_graphs();

 private:
  // Whether a collective can be enqueued. `valid`: what its arguments are. `start`: a stream that must not be captured,
  // none for a whole operation.
  template <typename Arguments>
  Status Check(const Arguments& arguments, Status valid, std::optional<CudaStream> start = std::nullopt);
  // A large permute, by copies.
  Status StartCopies(const TransferKey& key, const PermuteArguments& permute, CudaStream stream);
  // An event for the follower's times; null without times or follower.
  EventRef Time(const std::shared_ptr<Follower>& follower, CudaStream stream) const;
  // Run a collective by a kernel: a group collective or a permute, whose arguments have been checked. `alone`: this PE
  // waits for no other PE.
  template <typename Arguments>
  Status StartKernel(const TransferKey& key, const Arguments& arguments, bool alone, CudaStream stream);
  template <typename Arguments>
  Status RunKernel(const Arguments& arguments, CudaStream stream);
  // The lanes of kInLine serve one stream at a time, on which XLA launches its graphs too.
  Status CheckInLine(CudaStream stream, bool in_graph);
  Status StartSplit(const TransferKey& key, const PermuteArguments& permute, CudaStream stream);
  // `begun`: of the times, behind which `first` runs. `last` is what `stream` has last.
  void FollowKernels(Track track, const std::shared_ptr<Follower>& follower, EventRef begun, KernelTicket first,
                     KernelTicket last, CudaStream stream);
  void WatchLanes(LaneUse use);

  PairRings* const rings_;
  Device* const device_;
  Watchdog* const watchdog_;
  Lanes* const lanes_;
  SplitPermutes* const splits_;
  Timeline* const timeline_;
  const GpuPermute permutes_;
  const PermuteStreams permute_streams_;
  const CudaStream group_stream_;
  std::mutex mutex_;
  bool lanes_watched_[2] = {false, false};
  CudaStream in_line_stream_ = nullptr;  // of the calls in flight, null before the first
  KernelTicket in_line_ticket_;          // of the last such call
  // What a done waits for, and what it then has to run.
  struct Started {
    std::vector<EventRef> events;
    std::optional<SplitPermutes::Started> split = std::nullopt;
    EventRef begun = nullptr;  // of the times of a split permute that is followed
  };
  std::map<TransferKey, Started> started_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_TRANSFERS_H_
