#include "xla_patch/thunks/gpu/collective_permute.h"

#include <algorithm>

namespace xla_shmem::gpu {

PermutePeers PeersOf(const PermuteArguments& permute, int pe) {
  return {permute.source == pe ? -1 : permute.source, permute.target == pe ? -1 : permute.target};
}

void EnqueuePermute(PairRings& rings, const PermuteArguments& permute, CudaStream send_stream,
                    CudaStream receive_stream) {
  Device& device = rings.device();
  const PermutePeers peers = PeersOf(permute, rings.pe());
  const auto& operands = permute.buffers.operands;
  const auto& results = permute.buffers.results;
  const bool in_place = std::equal(operands.begin(), operands.end(), results.begin());
  // In place one stream does both, chunk by chunk: no byte is overwritten before it has been sent.
  const CudaStream put_stream = in_place ? receive_stream : send_stream;
  if (in_place) device.Order(receive_stream, send_stream);
  const std::vector<ByteRange> ranges = WholeBuffers(permute.buffers.bytes);
  ChunkCursor chunks(&ranges, rings.layout().slot_bytes());
  for (std::vector<Piece> pieces = chunks.Next(); !pieces.empty(); pieces = chunks.Next()) {
    if (peers.target >= 0) rings.EnqueueMessage(peers.target, operands, pieces, put_stream);
    const char* arrived = peers.source >= 0 ? rings.EnqueueArrival(peers.source, receive_stream) : nullptr;
    EnqueueResults(device, permute, pieces, arrived, receive_stream);
    if (peers.source >= 0) rings.EnqueueCredit(peers.source, receive_stream);
  }
  if (in_place) device.Order(send_stream, receive_stream);
}

void EnqueueResults(Device& device, const PermuteArguments& permute, const std::vector<Piece>& pieces,
                    const char* arrived, CudaStream stream) {
  for (const Piece& piece : pieces) {
    char* result = permute.buffers.results[piece.buffer] + piece.buffer_offset;
    const char* operand = permute.buffers.operands[piece.buffer] + piece.buffer_offset;
    if (arrived != nullptr) {
      device.Copy(result, arrived + piece.slot_offset, piece.bytes, stream);
    } else if (permute.source < 0) {
      device.Fill(result, 0, piece.bytes, stream);
    } else if (result != operand) {
      device.Copy(result, operand, piece.bytes, stream);  // this PE sends to itself
    }
  }
}

}  // namespace xla_shmem::gpu
