#include "xla_patch/thunks/gpu/replay.h"

#include <cstdint>
#include <vector>

#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/collective_permute.h"

namespace xla_shmem::gpu {
namespace {

class Exchange {
 public:
  Exchange(PairRings* rings, CudaStream stream) : rings_(rings), device_(rings->device()), stream_(stream) {}

  // Allows `source` to put.
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

void EnqueuePermuteReplay(PairRings& rings, const PermuteArguments& permute, CudaStream stream) {
  const PermutePeers peers = PeersOf(permute, rings.pe());
  Exchange exchange(&rings, stream);
  const std::vector<ByteRange> ranges = WholeBuffers(permute.buffers.bytes);
  ChunkCursor chunks(&ranges, rings.layout().slot_bytes());
  for (std::vector<Piece> pieces = chunks.Next(); !pieces.empty(); pieces = chunks.Next()) {
    if (peers.source >= 0) exchange.Grant(peers.source);
    if (peers.target >= 0) exchange.Put(peers.target, permute.buffers.operands, pieces);
    const char* arrived = peers.source >= 0 ? exchange.Receive(peers.source) : nullptr;
    EnqueueResults(rings.device(), permute, pieces, arrived, stream);
  }
}

}  // namespace xla_shmem::gpu
