#include "xla_patch/thunks/gpu/collective_permute.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace xla_shmem::gpu {
namespace {

// Enqueues the copy of `pieces` into the results. `arrived`: the slot with the source's data, null if no other PE is
// the source.
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

}  // namespace

// A small permute goes by kernels, because these are few commands. Over the rings its commands would take more time
// than its bytes, if these are fewer than the link moves in a gap. For larger ones copies are better: they leave the
// SMs to the compute that overlaps.
bool IsByKernel(GpuPermute permute, const Buffers& buffers) {
  if (permute != GpuPermute::kAuto) return permute == GpuPermute::kKernel;
  return std::accumulate(buffers.bytes.begin(), buffers.bytes.end(), size_t{0}) <= kBytesOfGap;
}

size_t ChunkBytes(size_t message_bytes, size_t slot_bytes) {
  size_t chunks = std::max<size_t>(DivideUp(message_bytes, slot_bytes), 1);
  // The function has one minimum.
  while (ChunkedSeconds(message_bytes, chunks + 1) < ChunkedSeconds(message_bytes, chunks)) ++chunks;
  const size_t bytes = std::max<size_t>(DivideUp(message_bytes, chunks), 1);
  return std::min(AlignedPiece(bytes), slot_bytes);
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

std::vector<CudaStream> EnqueuePermute(PairRings& rings, const PermuteArguments& permute, const PermuteStreams& streams,
                                       const EventRef& begun) {
  Device& device = rings.device();
  const int source = OtherPe(permute.source, rings.pe()), target = OtherPe(permute.target, rings.pe());
  const auto& operands = permute.buffers.operands;
  const auto& results = permute.buffers.results;
  const std::vector<std::vector<Piece>> chunks = ChunksOf(rings, permute);
  // In place, one stream sends and receives chunk by chunk, so that no byte is overwritten before it has been sent.
  const bool in_place = std::equal(operands.begin(), operands.end(), results.begin());
  std::vector<CudaStream> used{streams.receive};
  if (!in_place && target >= 0) {
    const size_t sends = std::min(chunks.size(), kSendStreams);
    for (size_t i = 0; i < sends; ++i) used.push_back(streams.send[rings.SendStream(target, i)]);
  }
  for (CudaStream stream : used) device.WaitFor(begun, stream);
  if (in_place) {
    for (CudaStream stream : streams.send) device.Order(streams.receive, stream);
  }
  BatchedStream sends[kSendStreams] = {{&device, streams.send[0]}, {&device, streams.send[1]}};
  BatchedStream receives(&device, streams.receive);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const std::vector<Piece>& pieces = chunks[i];
    if (target >= 0) {
      BatchedStream& puts = in_place ? receives : sends[rings.SendStream(target)];
      rings.EnqueueMessage(target, permute.tag, operands, pieces, puts);
      // For the stream's next chunk, with this one's signal: a batch of its own is saved. Other PEs may wait for the
      // credit of the chunk before this one as they give theirs.
      if (i + kSendStreams < chunks.size()) {
        if (!in_place) receives.Flush();
        rings.EnqueueCreditWait(target, kSendStreams - 1, puts);
      }
      if (!in_place) puts.Flush();  // before the wait below: streams may share a hardware queue
    }
    const char* arrived = source >= 0 ? rings.EnqueueArrival(source, permute.tag, receives) : nullptr;
    EnqueueResults(receives, permute, pieces, arrived);
    if (source >= 0) rings.EnqueueCredit(source, receives);
  }
  receives.Flush();
  if (in_place) {
    for (CudaStream stream : streams.send) device.Order(stream, streams.receive);
  }
  return used;
}

}  // namespace xla_shmem::gpu
