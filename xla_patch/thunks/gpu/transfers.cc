#include "xla_patch/thunks/gpu/transfers.h"

#include <algorithm>
#include <utility>

#include "xla_patch/thunks/gpu/describe.h"

namespace xla_shmem::gpu {

std::string CheckOverlaps(const StreamBuffers& buffers) {
  for (size_t i = 0; i < buffers.operands.size(); ++i) {
    for (size_t j = 0; j < buffers.results.size(); ++j) {
      const char* operand = buffers.operands[i];
      const char* result = buffers.results[j];
      if (i == j && operand == result) continue;
      if (operand + buffers.bytes[i] <= result || result + buffers.bytes[j] <= operand) continue;
      return "operand " + std::to_string(i) + " overlaps result " + std::to_string(j) +
             " without being it; XLA is not known to do that, please report it";
    }
  }
  return "";
}

Transfers::Transfers(PairRings* rings, Watchdog* watchdog, TeamReductions team_reductions)
    : rings_(rings),
      device_(&rings->device()),
      watchdog_(watchdog),
      team_reductions_(team_reductions),
      send_stream_(device_->CreateStream()),
      receive_stream_(device_->CreateStream()) {}

// Checks what holds for every start, and forks.
std::string Transfers::Begin(CudaStream stream) {
  std::string failure = watchdog_ == nullptr ? "" : watchdog_->failure();
  if (!failure.empty()) return failure;
  if (device_->Capturing(stream)) {
    return "an overlapping transfer was captured into a CUDA graph, which cannot hold it";
  }
  begun_ = MarkShared(*device_, stream);
  device_->WaitFor(begun_.get(), send_stream_);
  device_->WaitFor(begun_.get(), receive_stream_);
  return device_->TakeError();
}

std::string Transfers::End(const TransferKey& key, const std::string& name) {
  EventRef sent = MarkShared(*device_, send_stream_);
  EventRef received = MarkShared(*device_, receive_stream_);
  if (watchdog_ != nullptr) {
    watchdog_->Watch(std::move(begun_), {sent, received}, DescribeLater(*rings_, name));
  }
  started_[key] = {std::move(sent), std::move(received)};
  const std::string error = device_->TakeError();
  return error.empty() ? "" : name + ": " + error;
}

std::string Transfers::StartPermute(const TransferKey& key, const StreamPermute& permute, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string error = CheckOverlaps(permute.buffers);
  if (error.empty()) error = Begin(stream);
  if (!error.empty()) return permute.name + ": " + error;
  const bool sends = permute.target >= 0 && permute.target != rings_->pe();
  const bool receives = permute.source >= 0 && permute.source != rings_->pe();
  const auto& operands = permute.buffers.operands;
  const auto& results = permute.buffers.results;
  const bool in_place = std::equal(operands.begin(), operands.end(), results.begin());
  // One stream for both then, chunk by chunk: no byte is overwritten before it has been sent.
  const CudaStream send_stream = in_place ? receive_stream_ : send_stream_;
  if (in_place) device_->Order(receive_stream_, send_stream_);
  const std::vector<ByteRange> ranges = WholeBuffers(permute.buffers.bytes);
  ChunkCursor chunks(&ranges, rings_->layout().slot_bytes());
  for (std::vector<Piece> pieces = chunks.Next(); !pieces.empty(); pieces = chunks.Next()) {
    if (sends) rings_->EnqueueMessage(permute.target, operands, pieces, send_stream);
    const char* arrived = receives ? rings_->EnqueueArrival(permute.source, receive_stream_) : nullptr;
    EnqueueResults(permute, pieces, arrived, receive_stream_);
    if (receives) rings_->EnqueueCredit(permute.source, receive_stream_);
  }
  if (in_place) device_->Order(send_stream_, receive_stream_);
  return End(key, permute.name);
}

void Transfers::EnqueueResults(const StreamPermute& permute, const std::vector<Piece>& pieces, const char* arrived,
                               CudaStream stream) {
  for (const Piece& piece : pieces) {
    char* result = permute.buffers.results[piece.buffer] + piece.buffer_offset;
    const char* operand = permute.buffers.operands[piece.buffer] + piece.buffer_offset;
    if (arrived != nullptr) {
      device_->Copy(result, arrived + piece.slot_offset, piece.bytes, stream);
    } else if (permute.source < 0) {
      device_->Fill(result, 0, piece.bytes, stream);
    } else if (result != operand) {
      device_->Copy(result, operand, piece.bytes, stream);  // a self-edge
    }
  }
}

std::string Transfers::Finish(const TransferKey& key, const std::string& name, CudaStream stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = started_.find(key);
  if (found == started_.end()) return name + ": its done ran without its start";
  const auto [sent, received] = std::move(found->second);
  started_.erase(found);
  device_->WaitFor(sent.get(), stream);
  device_->WaitFor(received.get(), stream);
  std::string failure = watchdog_ == nullptr ? "" : watchdog_->failure();
  const std::string error = device_->TakeError();
  if (!failure.empty()) return failure;
  return error.empty() ? "" : name + ": " + error;
}

}  // namespace xla_shmem::gpu
