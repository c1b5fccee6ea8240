#include "xla_patch/thunks/gpu/collective_permute.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "xla_patch/thunks/gpu/chunk_bytes.h"

namespace xla_shmem::gpu {

// A small permute is a kernel, because that is one command. Over the rings its commands would take more time than its
// bytes, if these are fewer than the link moves in a gap (chunk_bytes.h). For larger ones copies are better: they leave
// the SMs to the compute that overlaps.
bool IsByKernel(GpuPermute permute, const Buffers& buffers) {
  if (permute != GpuPermute::kAuto) return permute == GpuPermute::kKernel;
  return std::accumulate(buffers.bytes.begin(), buffers.bytes.end(), size_t{0}) <= kBytesOfGap;
}

std::vector<std::vector<Piece>> ChunksOf(const PairRings& rings, const PermuteArguments& permute) {
  const std::vector<ByteRange> ranges = WholeBuffers(permute.buffers.bytes);
  ChunkCursor cursor(&ranges, ChunkBytes(PaddedBytes(ranges), rings.layout().slot_bytes()));
  std::vector<std::vector<Piece>> chunks;
  for (std::vector<Piece> pieces = cursor.Next(); !pieces.empty(); pieces = cursor.Next()) {
    chunks.push_back(std::move(pieces));
  }
  return chunks;
}

void EnqueuePermute(PairRings& rings, const PermuteArguments& permute, CudaStream send_stream,
                    CudaStream receive_stream) {
  Device& device = rings.device();
  const PermutePeers peers = PeersOf(permute, rings.pe());
  const auto& operands = permute.buffers.operands;
  const auto& results = permute.buffers.results;
  const bool in_place = std::equal(operands.begin(), operands.end(), results.begin());
  // In place, one stream sends and receives chunk by chunk, so that no byte is overwritten before it has been sent.
  BatchedStream sends(&device, send_stream), receives(&device, receive_stream);
  BatchedStream& puts = in_place ? receives : sends;
  if (in_place) device.Order(receive_stream, send_stream);
  const std::vector<std::vector<Piece>> chunks = ChunksOf(rings, permute);
  for (const std::vector<Piece>& pieces : chunks) {
    if (peers.target >= 0) {
      rings.EnqueueMessage(peers.target, permute.tag, operands, pieces, puts);
      // With this chunk's signal: a batch of its own is saved.
      if (&pieces != &chunks.back()) rings.EnqueueCreditWait(peers.target, puts);
      sends.Flush();  // before the wait below: streams may share a hardware queue
    }
    const char* arrived = peers.source >= 0 ? rings.EnqueueArrival(peers.source, permute.tag, receives) : nullptr;
    EnqueueResults(receives, permute, pieces, arrived);
    if (peers.source >= 0) rings.EnqueueCredit(peers.source, receives);
  }
  receives.Flush();
  if (in_place) device.Order(send_stream, receive_stream);
}

void EnqueueResults(BatchedStream& stream, const PermuteArguments& permute, const std::vector<Piece>& pieces,
                    const char* arrived) {
  for (const Piece& piece : pieces) {
    char* result = permute.buffers.results[piece.buffer] + piece.buffer_offset;
    const char* operand = permute.buffers.operands[piece.buffer] + piece.buffer_offset;
    if (arrived != nullptr) {
      stream.Copy(result, arrived + piece.slot_offset, piece.bytes);
    } else if (permute.source < 0) {
      if (!permute.keeps_results) stream.Fill(result, 0, piece.bytes);
    } else if (result != operand) {
      stream.Copy(result, operand, piece.bytes);  // this PE sends to itself
    }
  }
}

}  // namespace xla_shmem::gpu
