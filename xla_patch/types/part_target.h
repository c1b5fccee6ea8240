#ifndef XLA_SHMEM_TYPES_PART_TARGET_H_
#define XLA_SHMEM_TYPES_PART_TARGET_H_

#include <cstdint>
#include <iterator>

namespace xla_shmem {

// Custom calls for the parts of collectives that are divided by NVLink domain. XLA:GPU has no kReduce and no
// kBroadcast.
enum class PartTarget : uint8_t { kReduceScatter, kAllGather, kAllToAll, kReduce, kPermute, kBroadcast };

inline constexpr const char* kPartTargets[] = {
    "xla_shmem.reduce_scatter_parts", "xla_shmem.all_gather_parts",         "xla_shmem.all_to_all_parts",
    "xla_shmem.reduce_parts",         "xla_shmem.collective_permute_parts", "xla_shmem.collective_broadcast_parts",
};

constexpr const char* PartTargetName(PartTarget target) noexcept { return kPartTargets[static_cast<uint8_t>(target)]; }
static_assert(std::size(kPartTargets) == static_cast<size_t>(PartTarget::kBroadcast) + 1);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TYPES_PART_TARGET_H_
