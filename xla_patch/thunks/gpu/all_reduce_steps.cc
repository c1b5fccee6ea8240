#include "xla_patch/thunks/gpu/all_reduce_steps.h"

#include <algorithm>

namespace xla_shmem::gpu {

std::vector<int> PeersFrom(const std::vector<int>& group, int pe) {
  const auto self = std::find(group.begin(), group.end(), pe);
  std::vector<int> peers(self + 1, group.end());
  peers.insert(peers.end(), group.begin(), self);
  return peers;
}

std::string CheckAllReduce(const StreamAllReduce& all_reduce, int pe) {
  if (std::find(all_reduce.group.begin(), all_reduce.group.end(), pe) == all_reduce.group.end()) {
    return all_reduce.name + ": PE " + std::to_string(pe) + " is not in its replica group";
  }
  if (all_reduce.group.size() > Device::kMaxReduceInputs) {
    return all_reduce.name + ": a replica group of " + std::to_string(all_reduce.group.size()) + " PEs, at most " +
           std::to_string(Device::kMaxReduceInputs) + " can be reduced on GPU";
  }
  const auto can_reduce = [&](ElementType type) { return FindGpuReduction(type, all_reduce.reduction).has_value(); };
  if (!std::all_of(all_reduce.types.begin(), all_reduce.types.end(), can_reduce)) {
    return all_reduce.name + ": an element type or a reduction that the GPU's kernels do not carry; leave it to NCCL";
  }
  return "";
}

void EnqueueReduction(Device& device, const StreamAllReduce& all_reduce, const std::vector<Piece>& pieces,
                      const std::vector<const char*>& slot_of, CudaStream stream) {
  std::vector<const void*> inputs(slot_of.size());
  for (const Piece& piece : pieces) {
    const StreamBuffers& buffers = all_reduce.buffers;
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
