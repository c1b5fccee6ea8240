// The self-joined forms of Transfers: constant-value handshakes on XLA's own stream, fit for CUDA graphs.
//
// A captured wait has its value baked in, so growing counters cannot be used. Here each word is set to 1 by one PE,
// waited for and put back to 0 by the other before its next use can be asked for (docs/protocol.md, "Replay"):
//   receiver: grant := 1 at the source;  sender: wait grant = 1, grant := 0, put, arrived := 1;
//   receiver: wait arrived = 1, arrived := 0, copy out - and only then does its next use grant again.
// The pairs of all self-joined operations share words and slot: XLA runs them one after the other on one stream.
#include <algorithm>
#include <utility>

#include "xla_patch/thunks/gpu/all_reduce_steps.h"
#include "xla_patch/thunks/gpu/describe.h"
#include "xla_patch/thunks/gpu/transfers.h"

namespace xla_shmem::gpu {
namespace {

class Exchange {
 public:
  Exchange(PairRings* rings, CudaStream stream) : rings_(rings), device_(rings->device()), stream_(stream) {}

  // Lets `source` put.
  void Grant(int source) { device_.Signal(rings_->PeerReplayWords().grant, 1, source, stream_); }

  void Put(int target, const std::vector<const char*>& buffers, const std::vector<Piece>& pieces) {
    uint64_t* grant = rings_->OwnReplayWords(target).grant;
    device_.WaitEqual(grant, 1, stream_);
    device_.Signal(grant, 0, rings_->pe(), stream_);
    EnqueuePieces(device_, rings_->PeerReplaySlot(target), buffers, pieces, rings_->PeerReplayWords().arrived, 1,
                  target, stream_);
  }

  const char* Receive(int source) {
    uint64_t* arrived = rings_->OwnReplayWords(source).arrived;
    device_.WaitEqual(arrived, 1, stream_);
    device_.Signal(arrived, 0, rings_->pe(), stream_);
    return rings_->OwnReplaySlot(source);
  }

 private:
  PairRings* const rings_;
  Device& device_;
  const CudaStream stream_;
};

}  // namespace

std::string Transfers::BeginReplay(CudaStream stream) {
  std::string failure = watchdog_ == nullptr ? "" : watchdog_->failure();
  if (!failure.empty()) return failure;
  begun_ = nullptr;
  capturing_ = device_->Capturing(stream);
  if (capturing_) {
    // Events would belong to the capture; the words are there for every launch.
    device_->Signal(rings_->graph_busy(), 1, rings_->pe(), stream);
  } else if (watchdog_ != nullptr) {
    begun_ = MarkShared(*device_, stream);
  }
  return device_->TakeError();
}

std::string Transfers::EndReplay(const std::string& name, std::vector<int> targets, std::vector<int> sources,
                                 CudaStream stream) {
  if (capturing_) {
    device_->Tick(rings_->graph_busy(), rings_->graph_ended(), stream);
    if (watchdog_ != nullptr) watchdog_->WatchGraphs(rings_->graph_busy(), rings_->graph_ended(), name);
  } else if (begun_ != nullptr) {
    watchdog_->Watch(std::move(begun_), {MarkShared(*device_, stream)},
                     DescribeReplayLater(*rings_, name, std::move(targets), std::move(sources)));
  }
  const std::string error = device_->TakeError();
  return error.empty() ? "" : name + ": " + error;
}

std::string Transfers::ReplayPermute(const StreamPermute& permute, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string error = CheckOverlaps(permute.buffers);
  if (error.empty()) error = BeginReplay(stream);
  if (!error.empty()) return permute.name + ": " + error;
  const int me = rings_->pe();
  const bool sends = permute.target >= 0 && permute.target != me;
  const bool receives = permute.source >= 0 && permute.source != me;
  Exchange exchange(rings_, stream);
  const std::vector<ByteRange> ranges = WholeBuffers(permute.buffers.bytes);
  ChunkCursor chunks(&ranges, rings_->layout().slot_bytes());
  for (std::vector<Piece> pieces = chunks.Next(); !pieces.empty(); pieces = chunks.Next()) {
    if (receives) exchange.Grant(permute.source);
    if (sends) exchange.Put(permute.target, permute.buffers.operands, pieces);
    EnqueueResults(permute, pieces, receives ? exchange.Receive(permute.source) : nullptr, stream);
  }
  std::vector<int> targets, sources;
  if (sends) targets = {permute.target};
  if (receives) sources = {permute.source};
  return EndReplay(permute.name, std::move(targets), std::move(sources), stream);
}

std::string Transfers::ReplayAllReduce(const StreamAllReduce& all_reduce, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string error = CheckAllReduce(all_reduce, rings_->pe());
  if (error.empty()) error = CheckOverlaps(all_reduce.buffers);
  if (error.empty()) error = BeginReplay(stream);
  if (!error.empty()) return all_reduce.name + ": " + error;
  const std::vector<int> peers = PeersFrom(all_reduce.group, rings_->pe());
  Exchange exchange(rings_, stream);
  const std::vector<ByteRange> ranges = WholeBuffers(all_reduce.buffers.bytes);
  ChunkCursor chunks(&ranges, rings_->layout().slot_bytes());
  for (std::vector<Piece> pieces = chunks.Next(); !pieces.empty(); pieces = chunks.Next()) {
    for (const int peer : peers) exchange.Grant(peer);
    for (const int peer : peers) exchange.Put(peer, all_reduce.buffers.operands, pieces);
    std::vector<const char*> slots;
    slots.reserve(all_reduce.group.size());
    for (const int member : all_reduce.group) {
      slots.push_back(member == rings_->pe() ? nullptr : exchange.Receive(member));
    }
    EnqueueReduction(*device_, all_reduce, pieces, slots, stream);
  }
  return EndReplay(all_reduce.name, peers, peers, stream);
}

}  // namespace xla_shmem::gpu
