#include "xla_patch/thunks/gpu/collectives.h"

#include <algorithm>

#include "xla_patch/nvshmem/gpu/kernels/arguments.h"
#include "xla_patch/nvshmem/gpu/reduction_kernels.h"

namespace xla_shmem::gpu {

namespace {

bool Overlap(const char* a, size_t a_bytes, const char* b, size_t b_bytes) {
  return a_bytes != 0 && b_bytes != 0 && a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

Status CheckOverlaps(const Buffers& buffers, size_t operand_parts, size_t result_parts) {
  for (size_t i = 0; i < buffers.operands.size(); ++i) {
    for (size_t j = 0; j < buffers.results.size(); ++j) {
      const char* const operand = buffers.operands[i];
      const char* const result = buffers.results[j];
      if (i == j && operand == result && operand_parts == result_parts) continue;
      if (!Overlap(operand, buffers.bytes[i] * operand_parts, result, buffers.bytes[j] * result_parts)) continue;
      return Status::Error("operand " + std::to_string(i) + " overlaps result " + std::to_string(j) +
                           " without being it; XLA is not known to do that, please report it");
    }
  }
  return {};
}

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
  // The input of a ragged all-to-all is read while its result is written.
  if (const RaggedRows& rows = group.ragged;
      group.op == CollectiveOp::kRaggedAllToAll &&
      Overlap(rows.input, rows.input_rows * rows.row_bytes, group.buffers.results[0], group.buffers.bytes[0])) {
    return Status::Error("the input overlaps the result; XLA is not known to do that, please report it");
  }
  const bool whole = group.op == CollectiveOp::kAllToAll && !group.one_array_each;
  return CheckOverlaps(group.buffers, whole || group.op == CollectiveOp::kReduceScatter ? members : 1,
                       whole || group.op == CollectiveOp::kAllGather ? members : 1);
}

}  // namespace xla_shmem::gpu
