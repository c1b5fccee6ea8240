#include "xla_patch/thunks/stream/all_reduce_steps.h"

#include <algorithm>

namespace xla_shmem::gpu {
namespace {

// As the kernels are called (nvshmem/gpu/kernels.cu).
const char* KernelName(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return "f32";
    case ElementType::kF64:
      return "f64";
    case ElementType::kF16:
      return "f16";
    case ElementType::kBf16:
      return "bf16";
    case ElementType::kS8:
      return "s8";
    case ElementType::kS16:
      return "s16";
    case ElementType::kS32:
      return "s32";
    case ElementType::kS64:
      return "s64";
    case ElementType::kU8:
      return "u8";
    case ElementType::kU16:
      return "u16";
    case ElementType::kU32:
      return "u32";
    case ElementType::kU64:
      return "u64";
  }
  return "";
}

const char* KernelName(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::kSum:
      return "sum";
    case ReductionKind::kProd:
      return "prod";
    case ReductionKind::kMin:
      return "min";
    case ReductionKind::kMax:
      return "max";
  }
  return "";
}

}  // namespace

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
    device.Reduce(KernelName(type), KernelName(all_reduce.reduction), inputs, piece.bytes / ElementBytes(type),
                  buffers.results[piece.buffer] + piece.buffer_offset, stream);
  }
}

}  // namespace xla_shmem::gpu
