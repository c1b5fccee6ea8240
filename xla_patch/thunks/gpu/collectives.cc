#include "xla_patch/thunks/gpu/collectives.h"

#include <algorithm>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"

namespace xla_shmem::gpu {

Status CheckOverlaps(const Buffers& buffers, size_t operand_parts, size_t result_parts) {
  for (size_t i = 0; i < buffers.operands.size(); ++i) {
    for (size_t j = 0; j < buffers.results.size(); ++j) {
      const char* operand = buffers.operands[i];
      const char* result = buffers.results[j];
      if (i == j && operand == result && operand_parts == result_parts) continue;
      const char* const operand_end = operand + buffers.bytes[i] * operand_parts;
      const char* const result_end = result + buffers.bytes[j] * result_parts;
      if (operand_end <= result || result_end <= operand) continue;
      return Status::Error("operand " + std::to_string(i) + " overlaps result " + std::to_string(j) +
                           " without being it; XLA is not known to do that, please report it");
    }
  }
  return {};
}

namespace {

// The input of a ragged all-to-all is read while its result is written.
Status CheckRagged(const RaggedRows& ragged, const Buffers& buffers) {
  const char* const result = buffers.results[0];
  const size_t input_bytes = ragged.input_rows * ragged.row_bytes;
  if (input_bytes == 0 || buffers.bytes[0] == 0 || ragged.input + input_bytes <= result ||
      result + buffers.bytes[0] <= ragged.input) {
    return {};
  }
  return Status::Error("the input overlaps the result; XLA is not known to do that, please report it");
}

}  // namespace

Status CheckGroup(const GroupArguments& group, int pe) {
  const size_t members = group.group.size();
  if (group.group.empty() && group.op == CollectiveOp::kCollectiveBroadcast) return {};
  if (std::find(group.group.begin(), group.group.end(), pe) == group.group.end()) {
    return Status::Error("PE " + std::to_string(pe) + " is not in its replica group");
  }
  if (members > kMaxMembers) {
    return Status::Error("a replica group of " + std::to_string(members) + " PEs, at most " +
                         std::to_string(kMaxMembers) + " can exchange data on GPU");
  }
  if (group.one_array_each && (group.buffers.bytes.size() != members || members > kMaxParts)) {
    return Status::Error("an all-to-all of " + std::to_string(group.buffers.bytes.size()) + " arrays among " +
                         std::to_string(members) + " PEs; it needs one for each PE, and at most " +
                         std::to_string(kMaxParts));
  }
  if (IsReducing(group.op)) {
    const auto has_kernel = [&](ElementType type) { return FindKernelReduction(type, group.reduction).has_value(); };
    if (!std::all_of(group.types.begin(), group.types.end(), has_kernel)) {
      return Status::Error("no GPU kernel for this element type or reduction; leave it to NCCL");
    }
  }
  if (group.op == CollectiveOp::kRaggedAllToAll) XLA_SHMEM_RETURN_IF_ERROR(CheckRagged(group.ragged, group.buffers));
  const bool whole = group.op == CollectiveOp::kAllToAll && !group.one_array_each;
  return CheckOverlaps(group.buffers, whole || group.op == CollectiveOp::kReduceScatter ? members : 1,
                       whole || group.op == CollectiveOp::kAllGather ? members : 1);
}

}  // namespace xla_shmem::gpu
