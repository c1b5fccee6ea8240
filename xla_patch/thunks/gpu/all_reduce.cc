// All-reduce of Transfers: one- and two-shot over the rings (docs/protocol.md, "All-reduce").
#include <algorithm>
#include <utility>

#include "xla_patch/thunks/gpu/all_reduce_steps.h"
#include "xla_patch/thunks/gpu/transfers.h"
#include "xla_patch/thunks/gpu/two_shot.h"

namespace xla_shmem::gpu {
namespace {

// One all-reduce, enqueued on one stream: sends and reductions depend on each other chunk by chunk, in both directions.
class Enqueuer {
 public:
  Enqueuer(PairRings* rings, const StreamAllReduce& all_reduce, CudaStream stream)
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
  const StreamAllReduce& all_reduce_;
  const CudaStream stream_;
  const int me_;
  const std::vector<int> peers_;
  const std::vector<const char*> results_;
};

}  // namespace

bool Transfers::EnqueueOnTeam(const StreamAllReduce& all_reduce) {
  if (team_reductions_.api == nullptr) return false;
  const TeamHandle team = team_reductions_.teams->Find(all_reduce.group);
  const auto reduce_of = [&](ElementType type) {
    const std::optional<GpuReduction> reduction = FindGpuReduction(type, all_reduce.reduction);
    return reduction.has_value() ? team_reductions_.api->reduce_on_stream[reduction->type][reduction->kind] : nullptr;
  };
  const auto& types = all_reduce.types;
  if (team == kTeamInvalid || !std::all_of(types.begin(), types.end(), reduce_of)) return false;
  const size_t half = team_reductions_.staging_bytes / 2;
  char* operands = team_reductions_.staging;
  char* results = operands + half;
  const std::vector<ByteRange> whole = WholeBuffers(all_reduce.buffers.bytes);
  ChunkCursor cursor(&whole, half);
  for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
    for (const Piece& piece : pieces) {
      const ElementType type = types[piece.buffer];
      device_->Copy(operands + piece.slot_offset, all_reduce.buffers.operands[piece.buffer] + piece.buffer_offset,
                    piece.bytes, receive_stream_);
      device_->CheckShmem(reduce_of(type)(team, results + piece.slot_offset, operands + piece.slot_offset,
                                          piece.bytes / ElementBytes(type), receive_stream_),
                          "reduce_on_stream");
      device_->Copy(all_reduce.buffers.results[piece.buffer] + piece.buffer_offset, results + piece.slot_offset,
                    piece.bytes, receive_stream_);
    }
  }
  return true;
}

std::string Transfers::StartAllReduce(const TransferKey& key, const StreamAllReduce& all_reduce, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string error = CheckAllReduce(all_reduce, rings_->pe());
  if (error.empty()) error = CheckOverlaps(all_reduce.buffers);
  if (error.empty()) error = Begin(stream);
  if (!error.empty()) return all_reduce.name + ": " + error;
  device_->Order(receive_stream_, send_stream_);
  Enqueuer enqueuer(rings_, all_reduce, receive_stream_);
  if (all_reduce.group.size() == 1) {
    for (size_t i = 0; i < all_reduce.buffers.results.size(); ++i) {
      if (all_reduce.buffers.results[i] == all_reduce.buffers.operands[i]) continue;
      device_->Copy(all_reduce.buffers.results[i], all_reduce.buffers.operands[i], all_reduce.buffers.bytes[i],
                    receive_stream_);
    }
  } else if (EnqueueOnTeam(all_reduce)) {
    // Done.
  } else if (PaddedBytes(WholeBuffers(all_reduce.buffers.bytes)) <= OneShotBytesOnGpu(all_reduce.group.size())) {
    enqueuer.OneShot();
  } else {
    enqueuer.TwoShot();
  }
  device_->Order(send_stream_, receive_stream_);
  return End(key, all_reduce.name);
}

}  // namespace xla_shmem::gpu
