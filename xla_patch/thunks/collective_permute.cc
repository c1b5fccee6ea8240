#include "xla_patch/thunks/collective_permute.h"

#include <utility>

#include "xla_patch/thunks/aliasing.h"

namespace xla_shmem {
PermuteOperation::PermuteOperation(const PeContext* context, PermuteArguments arguments)
    : context_(context), arguments_(std::move(arguments)) {
  send_stream_ = context_->api->stream.create();
  receive_stream_ = context_->api->stream.create();
  ranges_ = WholeBuffers(arguments_.bytes);
  payload_ = PaddedBytes(ranges_);
  const bool self_edge = arguments_.target == context_->pe;
  needs_send_ = payload_ > 0 && arguments_.target >= 0 && !self_edge;
  needs_receive_ = payload_ > 0 && arguments_.source >= 0 && !self_edge;
  in_place_ = CopyAskewOperands(arguments_.results, arguments_.bytes, &arguments_.operands, &copies_);
}

PermuteOperation::~PermuteOperation() {
  context_->api->stream.destroy(send_stream_);
  context_->api->stream.destroy(receive_stream_);
}

bool PermuteOperation::OpenReceive() {
  if (!needs_receive_ || receive_.open()) return true;
  if (blocks_.blocks.empty() && !TakeBlocks(*context_, payload_, 1, &blocks_)) return false;
  return receive_.Open(*context_, arguments_.source, arguments_.key, blocks_.blocks[0], blocks_.geometry,
                       receive_stream_);
}

bool PermuteOperation::OpenSend() {
  return !needs_send_ || send_.open() || send_.Open(*context_, arguments_.target, arguments_.key);
}

bool PermuteOperation::Poll() {
  const StreamApi& stream = context_->api->stream;
  const bool receive_open = OpenReceive();
  const bool send_open = OpenSend();
  if (in_place_) {
    if (!send_enqueued_ && receive_open && send_open) {
      EnqueueInPlace(send_stream_);
      send_enqueued_ = receive_enqueued_ = true;
    }
  } else {
    if (!receive_enqueued_ && receive_open) {
      EnqueueReceives(receive_stream_);
      receive_enqueued_ = true;
    }
    if (!send_enqueued_ && send_open) {
      EnqueueSends(send_stream_);
      send_enqueued_ = true;
    }
  }
  const bool sent = send_enqueued_ && stream.query(send_stream_);
  const bool received = receive_enqueued_ && stream.query(receive_stream_);
  if (!sent || !received) return false;
  if (receive_.open()) {
    receive_.Close(*context_, receive_stream_);
    ReturnBlocks(blocks_);
  }
  return true;
}

void PermuteOperation::EnqueueSends(StreamHandle stream) {
  if (!needs_send_) return;
  ChunkCursor cursor(&ranges_, send_.geometry().slot_bytes);
  for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
    send_.EnqueueMessage(*context_, arguments_.operands, pieces, stream);
  }
}

void PermuteOperation::EnqueueReceive(const std::vector<Piece>& pieces, StreamHandle stream) {
  const char* slot = receive_.EnqueueArrival(*context_, stream);
  for (const Piece& piece : pieces) {
    context_->api->stream.memcpy_async(arguments_.results[piece.buffer] + piece.buffer_offset, slot + piece.slot_offset,
                                       piece.bytes, stream);
  }
  receive_.EnqueueCredit(*context_, stream);
}

void PermuteOperation::EnqueueReceives(StreamHandle stream) {
  if (needs_receive_) {
    ChunkCursor cursor(&ranges_, blocks_.geometry.slot_bytes);
    for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
      EnqueueReceive(pieces, stream);
    }
    return;
  }
  const StreamApi& api = context_->api->stream;
  for (size_t i = 0; i < arguments_.results.size(); ++i) {
    if (arguments_.source == context_->pe) {
      api.memcpy_async(arguments_.results[i], arguments_.operands[i], arguments_.bytes[i], stream);
    } else {
      api.memset_async(arguments_.results[i], 0, arguments_.bytes[i], stream);
    }
  }
}

void PermuteOperation::EnqueueInPlace(StreamHandle stream) {
  if (!needs_send_ || !needs_receive_) {
    EnqueueSends(stream);
    EnqueueReceives(stream);
    return;
  }
  // A chunk is received once every byte before its end has been sent. Around a ring of such PEs the one that has sent
  // least can always go on, so this cannot deadlock whatever slot sizes the receivers chose (docs/protocol.md).
  ChunkCursor send_cursor(&ranges_, send_.geometry().slot_bytes);
  ChunkCursor receive_cursor(&ranges_, blocks_.geometry.slot_bytes);
  auto end_of = [](const std::vector<Piece>& pieces) {
    const Piece& last = pieces.back();
    return std::make_pair(last.buffer, last.buffer_offset + last.bytes);
  };
  std::vector<Piece> to_send = send_cursor.Next();
  std::pair<size_t, size_t> sent{0, 0};
  for (std::vector<Piece> pieces = receive_cursor.Next(); !pieces.empty(); pieces = receive_cursor.Next()) {
    while (!to_send.empty() && sent < end_of(pieces)) {
      send_.EnqueueMessage(*context_, arguments_.operands, to_send, stream);
      sent = end_of(to_send);
      to_send = send_cursor.Next();
    }
    EnqueueReceive(pieces, stream);
  }
}

std::string PermuteOperation::Describe() const {
  std::string text = "collective-permute " + arguments_.name + " (" + std::to_string(payload_) + " bytes) on PE " +
                     std::to_string(context_->pe) + ", execution " +
                     std::to_string(arguments_.key.execution & 0xffffffff);
  if (needs_receive_) {
    text += receive_.open() ? "; from its source: " + receive_.Counters()
                            : "; no free slot for PE " + std::to_string(arguments_.source) +
                                  " to put into (raise XLA_SHMEM_HEAP_SIZE)";
  }
  if (needs_send_) {
    text += send_.open()
                ? "; to its target: " + send_.Counters()
                : "; its target PE " + std::to_string(arguments_.target) + " has not arrived at this operation";
  }
  return text;
}

bool PermuteOperation::WaitsFor(int pe) const {
  if (needs_receive_ && pe == arguments_.source && (!receive_.open() || receive_.Waiting())) return true;
  if (!needs_send_ || pe != arguments_.target) return false;
  if (send_.open()) return send_.Waiting();
  SendChannel probe;
  return !probe.Open(*context_, arguments_.target, arguments_.key);
}

void PermuteOperation::Abandon() {
  context_->api->stream.abandon(send_stream_);
  context_->api->stream.abandon(receive_stream_);
}

}  // namespace xla_shmem
