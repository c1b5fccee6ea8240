#include "xla_patch/thunks/gpu/group_reduction.h"

#include <algorithm>

#include "xla_patch/types/element_type.h"

namespace xla_shmem::gpu {

std::vector<int> PeersFrom(const std::vector<int>& group, int pe) {
  const auto self = std::find(group.begin(), group.end(), pe);
  std::vector<int> peers(self + 1, group.end());
  peers.insert(peers.end(), group.begin(), self);
  return peers;
}

void EnqueueReduction(Device& device, const AllReduceArguments& all_reduce, const std::vector<Piece>& pieces,
                      const std::vector<const char*>& slot_of, CudaStream stream) {
  std::vector<const void*> inputs(slot_of.size());
  for (const Piece& piece : pieces) {
    const Buffers& buffers = all_reduce.buffers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] =
          slot_of[i] == nullptr ? buffers.operands[piece.buffer] + piece.buffer_offset : slot_of[i] + piece.slot_offset;
    }
    const ElementType type = all_reduce.types[piece.buffer];
    device.Reduce(type, all_reduce.reduction, inputs, piece.bytes / ElementBytes(type),
                  buffers.results[piece.buffer] + piece.buffer_offset, stream);
  }
}

}  // namespace xla_shmem::gpu
