#include "xla_patch/assigner/way.h"

#include <algorithm>

namespace xla_shmem {
namespace {

// The op in XLA's list of collectives whose buffers are windows; "" for one that it lacks.
const char* NameInWindowsFlag(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return "AllReduce";
    case CollectiveOp::kAllGather:
      return "AllGather";
    case CollectiveOp::kReduceScatter:
      return "ReduceScatter";
    case CollectiveOp::kAllToAll:
      return "AllToAll";
    case CollectiveOp::kCollectivePermute:
      return "CollectivePermute";
    case CollectiveOp::kCollectiveBroadcast:
      return "CollectiveBroadcast";
    case CollectiveOp::kRaggedAllToAll:
      break;
  }
  return "RaggedAllToAll";
}

}  // namespace

std::optional<Way> WayOfWord(std::string_view word) {
  const auto* const found =
      std::find_if(kWays.begin(), kWays.end(), [&](const WayInfo& info) { return word == info.word; });
  return found == kWays.end() ? std::nullopt : std::make_optional(found->way);
}

std::optional<std::string> FlagOf(Way way, CollectiveOp op) {
  const bool permutes = op == CollectiveOp::kCollectivePermute;
  switch (way) {
    case Way::kNvshmem:
      return std::nullopt;
    case Way::kNccl:
      if (op == CollectiveOp::kAllReduce) return "--xla_gpu_experimental_use_collective_kernels=";
      if (op != CollectiveOp::kRaggedAllToAll) return std::nullopt;
      return "--xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=false";
    case Way::kOneSided:
      if (permutes) return "--xla_gpu_collective_permute_mode=symmetric";
      if (op != CollectiveOp::kAllGather) return std::nullopt;
      return "--xla_gpu_all_gather_mode=symmetric";
    case Way::kNcclSymmetric:
      return std::string("--xla_enable_nccl_symmetric_buffers_for_collectives=") + NameInWindowsFlag(op);
    case Way::kPeerCopies:
      if (permutes) return "--xla_gpu_collective_permute_mode=peer";
      if (op != CollectiveOp::kAllToAll) return std::nullopt;
      return "--xla_gpu_use_memcpy_local_p2p=true";
    case Way::kKernels:
      if (op == CollectiveOp::kAllReduce) return "--xla_gpu_experimental_use_collective_kernels=ALL_REDUCE";
      if (op != CollectiveOp::kRaggedAllToAll) return std::nullopt;
      return "--xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=true";
  }
  return std::nullopt;
}

}  // namespace xla_shmem
