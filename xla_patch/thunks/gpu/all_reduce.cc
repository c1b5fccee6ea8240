#include "xla_patch/thunks/gpu/all_reduce.h"

#include <algorithm>
#include <vector>

#include "xla_patch/thunks/chunks.h"
#include "xla_patch/thunks/gpu/group_reduction.h"
#include "xla_patch/thunks/gpu/two_shot.h"

namespace xla_shmem::gpu {
namespace {

// One all-reduce, enqueued on one stream: sends and reductions depend on each other chunk by chunk, in both directions.
class Enqueuer {
 public:
  Enqueuer(PairRings* rings, const AllReduceArguments& all_reduce, CudaStream stream)
      : rings_(rings),
        all_reduce_(all_reduce),
        stream_(stream),
        me_(static_cast<int>(std::find(all_reduce.group.begin(), all_reduce.group.end(), rings->pe()) -
                             all_reduce.group.begin())),
        peers_(PeersFrom(all_reduce.group, rings->pe())),
        results_(all_reduce.buffers.results.begin(), all_reduce.buffers.results.end()) {}

  void OneShot() {
    const std::vector<ByteRange> whole = WholeBuffers(all_reduce_.buffers.bytes);
    ChunkCursor cursor(&whole, rings_->layout().slot_bytes());
    for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
      Share(all_reduce_.buffers.operands, pieces);
      ReduceArrivals(pieces);
    }
  }

  void TwoShot() {
    TwoShotActions actions;
    actions.contribute = [&](int owner, const std::vector<Piece>& pieces) {
      rings_->EnqueueMessage(all_reduce_.group[owner], all_reduce_.buffers.operands, pieces, stream_);
    };
    actions.reduce_and_share = [&](const std::vector<Piece>& pieces) {
      ReduceArrivals(pieces);
      Share(results_, pieces);
    };
    actions.collect = [&](int owner, const std::vector<Piece>& pieces) { Collect(all_reduce_.group[owner], pieces); };
    const PairLayout& layout = rings_->layout();
    RunTwoShot(all_reduce_.buffers.bytes,
               {static_cast<int>(all_reduce_.group.size()), me_, layout.slot_bytes(), layout.num_slots()}, actions);
  }

 private:
  void Share(const std::vector<const char*>& buffers, const std::vector<Piece>& pieces) {
    for (const int peer : peers_) rings_->EnqueueMessage(peer, buffers, pieces, stream_);
  }

  void ReduceArrivals(const std::vector<Piece>& pieces) {
    std::vector<const char*> slots(all_reduce_.group.size(), nullptr);
    for (size_t i = 0; i < slots.size(); ++i) {
      if (static_cast<int>(i) != me_) slots[i] = rings_->EnqueueArrival(all_reduce_.group[i], stream_);
    }
    EnqueueReduction(rings_->device(), all_reduce_, pieces, slots, stream_);
    for (const int peer : peers_) rings_->EnqueueCredit(peer, stream_);
  }

  void Collect(int owner, const std::vector<Piece>& pieces) {
    const char* slot = rings_->EnqueueArrival(owner, stream_);
    for (const Piece& piece : pieces) {
      rings_->device().Copy(all_reduce_.buffers.results[piece.buffer] + piece.buffer_offset, slot + piece.slot_offset,
                            piece.bytes, stream_);
    }
    rings_->EnqueueCredit(owner, stream_);
  }

  PairRings* const rings_;
  const AllReduceArguments& all_reduce_;
  const CudaStream stream_;
  const int me_;
  const std::vector<int> peers_;
  const std::vector<const char*> results_;
};

}  // namespace

void EnqueueAllReduce(PairRings& rings, const AllReduceArguments& all_reduce, CudaStream stream) {
  const Buffers& buffers = all_reduce.buffers;
  if (all_reduce.group.size() == 1) {
    for (size_t i = 0; i < buffers.results.size(); ++i) {
      if (buffers.results[i] == buffers.operands[i]) continue;
      rings.device().Copy(buffers.results[i], buffers.operands[i], buffers.bytes[i], stream);
    }
    return;
  }
  Enqueuer enqueuer(&rings, all_reduce, stream);
  if (PaddedBytes(WholeBuffers(buffers.bytes)) <= OneShotBytesOnGpu(all_reduce.group.size())) {
    enqueuer.OneShot();
  } else {
    enqueuer.TwoShot();
  }
}

}  // namespace xla_shmem::gpu
