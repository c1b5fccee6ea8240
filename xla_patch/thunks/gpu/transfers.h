// The collectives of one PE on streams: enqueue, fork, join.
//
// A transfer runs on two streams of ours, one for what this PE sends and one for what it receives, in the order the
// operations were started. Start forks from the stream XLA gives, Finish joins it again; XLA's stream is free in
// between, so compute overlaps. Replay* run on XLA's stream itself and may be captured into a CUDA graph: constant
// values, nothing of ours left open (replay.cc).
//
// Everything returns "" or a sentence. Errors that only show later (a peer that never comes) are the watchdog's.
#ifndef XLA_SHMEM_THUNKS_GPU_TRANSFERS_H_
#define XLA_SHMEM_THUNKS_GPU_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/nvshmem/gpu/teams.h"
#include "xla_patch/nvshmem/gpu/watchdog.h"
#include "xla_patch/thunks/gpu/pair_rings.h"
#include "xla_patch/thunks/reduction.h"

namespace xla_shmem::gpu {

// One execution of one operation on this PE, to pair a done with its start.
struct TransferKey {
  uint64_t operation;
  int64_t run;
  bool operator<(const TransferKey& other) const {
    return operation != other.operation ? operation < other.operation : run < other.run;
  }
};

struct StreamBuffers {
  std::vector<const char*> operands;
  std::vector<char*> results;
  std::vector<size_t> bytes;  // of each operand and of its result
};

// Why these buffers cannot be worked on, or "": result i may be operand i, any other overlap is refused.
std::string CheckOverlaps(const StreamBuffers& buffers);

struct StreamPermute {
  std::string name;  // of the HLO instruction, for errors
  int source = -1;   // PE that sends to us, -1: none (results become zeros)
  int target = -1;   // PE that we send to, -1: none
  StreamBuffers buffers;
};

struct StreamAllReduce {
  std::string name;
  ReductionKind reduction = ReductionKind::kSum;
  std::vector<int> group;  // PEs in group order; ours is among them
  std::vector<ElementType> types;
  StreamBuffers buffers;
};

// Up to this many padded bytes an all-reduce is one-shot: fewer steps, more bytes. To be tuned on a GPU.
inline size_t OneShotBytesOnGpu(size_t group_size) { return (512 << 10) / (group_size > 1 ? group_size - 1 : 1); }

// NVSHMEM's own reductions, for groups that have a team (XLA_SHMEM_GPU_REDUCE=teams). They may use multicast in the
// switch, and one kernel instead of many commands; the bits may differ from PE to PE.
struct TeamReductions {
  const NvshmemApi* api = nullptr;  // null: none
  const Teams* teams = nullptr;
  char* staging = nullptr;  // symmetric: half for operands, half for results
  size_t staging_bytes = 0;
};

class Transfers {
 public:
  // `rings` and `watchdog` (may be null) outlive this.
  Transfers(PairRings* rings, Watchdog* watchdog, TeamReductions team_reductions = {});

  std::string StartPermute(const TransferKey& key, const StreamPermute& permute, CudaStream stream);
  std::string StartAllReduce(const TransferKey& key, const StreamAllReduce& all_reduce, CudaStream stream);
  // Joins the transfer that was started last under `key`.
  std::string Finish(const TransferKey& key, const std::string& name, CudaStream stream);

  std::string ReplayPermute(const StreamPermute& permute, CudaStream stream);
  std::string ReplayAllReduce(const StreamAllReduce& all_reduce, CudaStream stream);

 private:
  std::string Begin(CudaStream stream);
  std::string End(const TransferKey& key, const std::string& name);
  // The same for what runs on XLA's stream.
  std::string BeginReplay(CudaStream stream);
  // `targets`, `sources`: the peers it puts to and receives from.
  std::string EndReplay(const std::string& name, std::vector<int> targets, std::vector<int> sources, CudaStream stream);
  // `arrived`: what the source put, null if no peer is the source.
  void EnqueueResults(const StreamPermute& permute, const std::vector<Piece>& pieces, const char* arrived,
                      CudaStream stream);

  // False if NVSHMEM does not reduce this.
  bool EnqueueOnTeam(const StreamAllReduce& all_reduce);

  PairRings* const rings_;
  Device* const device_;
  Watchdog* const watchdog_;
  const TeamReductions team_reductions_;
  CudaStream send_stream_;
  CudaStream receive_stream_;
  std::mutex mutex_;
  EventRef begun_;  // of the transfer being enqueued
  bool capturing_ = false;
  std::map<TransferKey, std::pair<EventRef, EventRef>> started_;
};

}  // namespace xla_shmem::gpu

#endif  // XLA_SHMEM_THUNKS_GPU_TRANSFERS_H_
