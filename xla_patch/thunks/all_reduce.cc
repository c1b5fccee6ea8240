#include "xla_patch/thunks/all_reduce.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "xla_patch/thunks/aliasing.h"
#include "xla_patch/thunks/two_shot.h"

namespace xla_shmem {

size_t OneShotLimitBytes(size_t group_size) {
  constexpr size_t kPairLimit = 64 << 10;
  return kPairLimit / std::max<size_t>(group_size - 1, 1);
}

AllReduceOperation::AllReduceOperation(const PeContext* context, AllReduceArguments arguments)
    : context_(context), arguments_(std::move(arguments)), stream_(context->api->stream.create()) {
  const auto& group = arguments_.group;
  my_index_ = static_cast<int>(std::find(group.begin(), group.end(), context_->pe) - group.begin());
  payload_ = PaddedBytes(WholeBuffers(arguments_.bytes));
  one_shot_ = payload_ <= OneShotLimitBytes(group.size());
  sends_.resize(group.size());
  receives_.resize(group.size());
  CopyAskewOperands(arguments_.results, arguments_.bytes, &arguments_.operands, &copies_);
}

AllReduceOperation::~AllReduceOperation() { context_->api->stream.destroy(stream_); }

bool AllReduceOperation::OpenReceives() {
  const size_t peers = arguments_.group.size() - 1;
  if (blocks_.blocks.empty()) {
    // Two-shot messages: the peer's share of our part, then its results: about two parts.
    const size_t message = one_shot_ ? payload_ : 2 * payload_ / arguments_.group.size() + 2 * kPieceAlignment;
    if (!TakeBlocks(*context_, message, peers, &blocks_)) return false;
  }
  bool all_open = true;
  size_t block = 0;
  for (int i = 0; i < members(); ++i) {
    if (i == my_index_) continue;
    char* memory = blocks_.blocks[block++];
    if (receives_[i].open()) continue;
    all_open &= receives_[i].Open(*context_, arguments_.group[i], arguments_.key, memory, blocks_.geometry, stream_);
  }
  return all_open;
}

bool AllReduceOperation::OpenSends() {
  bool all_open = true;
  for (int i = 0; i < members(); ++i) {
    if (i == my_index_ || sends_[i].open()) continue;
    all_open &= sends_[i].Open(*context_, arguments_.group[i], arguments_.key);
  }
  return all_open;
}

bool AllReduceOperation::Poll() {
  if (!enqueued_) {
    if (members() == 1 || payload_ == 0) {
      for (size_t i = 0; i < arguments_.results.size(); ++i) {
        context_->api->stream.memcpy_async(arguments_.results[i], arguments_.operands[i], arguments_.bytes[i], stream_);
      }
    } else {
      const bool receives_open = OpenReceives();
      if (!OpenSends() || !receives_open) return false;
      one_shot_ ? EnqueueOneShot() : EnqueueTwoShot();
    }
    enqueued_ = true;
  }
  if (!context_->api->stream.query(stream_)) return false;
  for (ReceiveChannel& channel : receives_) {
    if (channel.open()) channel.Close(*context_, stream_);
  }
  ReturnBlocks(blocks_);
  return true;
}

void AllReduceOperation::RunReduce(void* argument) {
  const auto& step = *static_cast<const ReduceStep*>(argument);
  const AllReduceArguments& arguments = step.operation->arguments_;
  std::vector<const char*> inputs(step.slots.size());
  for (const Piece& piece : step.pieces) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = step.slots[i] == nullptr ? arguments.operands[piece.buffer] + piece.buffer_offset
                                           : step.slots[i] + piece.slot_offset;
    }
    const ElementType type = arguments.types[piece.buffer];
    Reduce(type, arguments.reduction, inputs.data(), inputs.size(), piece.bytes / ElementBytes(type),
           arguments.results[piece.buffer] + piece.buffer_offset);
  }
}

void AllReduceOperation::EnqueueReduce(std::vector<Piece> pieces) {
  auto step = std::make_unique<ReduceStep>();
  step->operation = this;
  step->pieces = std::move(pieces);
  step->slots.resize(members(), nullptr);
  for (int i = 0; i < members(); ++i) {
    if (i != my_index_) step->slots[i] = receives_[i].EnqueueArrival(*context_, stream_);
  }
  context_->api->stream.launch_host_func(stream_, RunReduce, step.get());
  for (int i = 0; i < members(); ++i) {
    if (i != my_index_) receives_[i].EnqueueCredit(*context_, stream_);
  }
  steps_.push_back(std::move(step));
}

void AllReduceOperation::EnqueueResults(int owner, const std::vector<Piece>& pieces) {
  const char* slot = receives_[owner].EnqueueArrival(*context_, stream_);
  for (const Piece& piece : pieces) {
    context_->api->stream.memcpy_async(arguments_.results[piece.buffer] + piece.buffer_offset, slot + piece.slot_offset,
                                       piece.bytes, stream_);
  }
  receives_[owner].EnqueueCredit(*context_, stream_);
}

void AllReduceOperation::EnqueueOneShot() {
  const std::vector<ByteRange> whole = WholeBuffers(arguments_.bytes);
  // The smallest slot of the group, as in two-shot: all members cut the same chunks.
  size_t slot_bytes = blocks_.geometry.slot_bytes;
  for (int i = 0; i < members(); ++i) {
    if (i != my_index_) slot_bytes = std::min(slot_bytes, sends_[i].geometry().slot_bytes);
  }
  ChunkCursor cursor(&whole, slot_bytes);
  for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
    for (int i = 0; i < members(); ++i) {
      if (i != my_index_) sends_[i].EnqueueMessage(*context_, arguments_.operands, pieces, stream_);
    }
    EnqueueReduce(std::move(pieces));
  }
}

void AllReduceOperation::EnqueueTwoShot() {
  size_t slot_bytes = blocks_.geometry.slot_bytes;
  uint32_t num_slots = blocks_.geometry.num_slots;
  for (int i = 0; i < members(); ++i) {
    if (i == my_index_) continue;
    slot_bytes = std::min(slot_bytes, sends_[i].geometry().slot_bytes);
    num_slots = std::min(num_slots, sends_[i].geometry().num_slots);
  }
  const std::vector<const char*> results(arguments_.results.begin(), arguments_.results.end());
  TwoShotActions actions;
  actions.contribute = [&](int owner, const std::vector<Piece>& pieces) {
    sends_[owner].EnqueueMessage(*context_, arguments_.operands, pieces, stream_);
  };
  actions.reduce_and_share = [&](const std::vector<Piece>& pieces) {
    EnqueueReduce(pieces);
    for (int i = 0; i < members(); ++i) {
      if (i != my_index_) sends_[i].EnqueueMessage(*context_, results, pieces, stream_);
    }
  };
  actions.collect = [&](int owner, const std::vector<Piece>& pieces) { EnqueueResults(owner, pieces); };
  RunTwoShot(arguments_.bytes, {members(), my_index_, slot_bytes, num_slots}, actions);
}

std::string AllReduceOperation::Describe() const {
  std::string text = "all-reduce " + arguments_.name + " (" + std::to_string(payload_) + " bytes, " +
                     std::to_string(members()) + " PEs) on PE " + std::to_string(context_->pe) + ", execution " +
                     std::to_string(arguments_.key.execution & 0xffffffff);
  if (blocks_.blocks.empty()) return text + "; no free slots for its peers to put into (raise XLA_SHMEM_HEAP_SIZE)";
  std::string missing;
  for (int i = 0; i < members(); ++i) {
    if (i != my_index_ && !sends_[i].open())
      missing += (missing.empty() ? "" : ", ") + std::to_string(arguments_.group[i]);
  }
  if (!missing.empty()) return text + "; not arrived at this operation: PE " + missing;
  for (int i = 0; i < members(); ++i) {
    if (i != my_index_ && receives_[i].Waiting()) text += "; " + receives_[i].Counters();
  }
  return text;
}

bool AllReduceOperation::WaitsFor(int pe) const {
  const auto& group = arguments_.group;
  const auto found = std::find(group.begin(), group.end(), pe);
  if (found == group.end() || pe == context_->pe) return false;
  // Nobody can have finished before all have contributed.
  if (!enqueued_) return true;
  const size_t i = found - group.begin();
  return receives_[i].Waiting() || sends_[i].Waiting();
}

void AllReduceOperation::Abandon() { context_->api->stream.abandon(stream_); }

}  // namespace xla_shmem
