#include "xla_patch/thunks/gpu/collectives.h"

#include <algorithm>

#include "xla_patch/nvshmem/gpu/device.h"
#include "xla_patch/nvshmem/gpu_reductions.h"

namespace xla_shmem::gpu {

Status CheckOverlaps(const Buffers& buffers) {
  for (size_t i = 0; i < buffers.operands.size(); ++i) {
    for (size_t j = 0; j < buffers.results.size(); ++j) {
      const char* operand = buffers.operands[i];
      const char* result = buffers.results[j];
      if (i == j && operand == result) continue;
      if (operand + buffers.bytes[i] <= result || result + buffers.bytes[j] <= operand) continue;
      return Status::Error("operand " + std::to_string(i) + " overlaps result " + std::to_string(j) +
                           " without being it; XLA is not known to do that, please report it");
    }
  }
  return {};
}

Status CheckAllReduce(const AllReduceArguments& all_reduce, int pe) {
  if (std::find(all_reduce.group.begin(), all_reduce.group.end(), pe) == all_reduce.group.end()) {
    return Status::Error("PE " + std::to_string(pe) + " is not in its replica group");
  }
  if (all_reduce.group.size() > Device::kMaxReduceInputs) {
    return Status::Error("a replica group of " + std::to_string(all_reduce.group.size()) + " PEs, at most " +
                         std::to_string(Device::kMaxReduceInputs) + " can be reduced on GPU");
  }
  const auto has_kernel = [&](ElementType type) { return FindGpuReduction(type, all_reduce.reduction).has_value(); };
  if (!std::all_of(all_reduce.types.begin(), all_reduce.types.end(), has_kernel)) {
    return Status::Error("no GPU kernel for this element type or reduction; leave it to NCCL");
  }
  return CheckOverlaps(all_reduce.buffers);
}

}  // namespace xla_shmem::gpu
