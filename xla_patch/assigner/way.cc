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

std::vector<std::string> FlagsOf(Way way, CollectiveOp op) {
  const bool permutes = op == CollectiveOp::kCollectivePermute;
  const bool reduces = op == CollectiveOp::kAllReduce;
  const bool is_ragged = op == CollectiveOp::kRaggedAllToAll;
  switch (way) {
    case Way::kNvshmem:
      break;
    case Way::kNccl:
      if (reduces) return {"--xla_gpu_experimental_use_collective_kernels="};
      if (is_ragged) {
        // Without the second one, XLA from jax 0.11 on refuses to run the program.
        return {"--xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=false",
                "--xla_gpu_allow_ragged_all_to_all_nccl_send_recv_fallback=true"};
      }
      break;
    case Way::kOneSided:
      if (permutes) return {"--xla_gpu_collective_permute_mode=symmetric"};
      if (op == CollectiveOp::kAllGather) return {"--xla_gpu_all_gather_mode=symmetric"};
      break;
    case Way::kNcclSymmetric:
      return {std::string("--xla_enable_nccl_symmetric_buffers_for_collectives=") + NameInWindowsFlag(op)};
    case Way::kPeerCopies:
      if (permutes) return {"--xla_gpu_collective_permute_mode=peer"};
      if (op == CollectiveOp::kAllToAll) return {"--xla_gpu_use_memcpy_local_p2p=true"};
      break;
    case Way::kKernels:
      if (reduces) return {"--xla_gpu_experimental_use_collective_kernels=ALL_REDUCE"};
      if (is_ragged) return {"--xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel=true"};
      break;
  }
  return {};
}

}  // namespace xla_shmem
