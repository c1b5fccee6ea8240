// Groups that span NVLink domains, divided into parts within a domain and parts between domains. On CPU a domain is a
// host, unless XLA_SHMEM_NVLINK_DOMAIN makes smaller ones.
#ifndef XLA_SHMEM_ASSIGNER_HIERARCHY_H_
#define XLA_SHMEM_ASSIGNER_HIERARCHY_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// The devices of a collective by domain. Domains of a group have the order in which the group first names them, devices
// of a domain that of the group.
//
// All divisions but permute and broadcast: each group has `num_domains` domains with `local_size` devices each.
// Broadcast: groups may differ, and `across` is empty.
// Permute: only the pairs.
struct Hierarchy {
  Division division = Division::kAllReduce;
  int64_t num_domains = 0;  // of a group; of the largest one for a broadcast, of all devices for a permute
  int64_t local_size = 0;   // devices of a group in a domain; the most for a broadcast; 0 for a permute
  // The devices of a group in one domain: group g has local groups g * num_domains + domain.
  DeviceGroups local;
  // The place in its whole group of each device of `local`, in the same order.
  std::vector<int64_t> positions;
  // The devices of a group with equal index in their domains, domain by domain: group g has g * local_size + index.
  DeviceGroups across;
  std::vector<std::pair<int64_t, int64_t>> local_pairs;
  std::vector<std::pair<int64_t, int64_t>> across_pairs;
};

// The order of devices in all groups: domain after domain, or the first device of each domain, then the second of each,
// and so on. None for another order.
enum class GroupOrder : uint8_t { kByDomain, kByIndex };
std::optional<GroupOrder> OrderOf(const Hierarchy& hierarchy);

inline constexpr const char* kAloneInDomain = "each device of a group is alone in its NVLink domain";

// An error that says why the collective cannot be divided, or why nothing would be gained. All its devices must be in
// the topology.
Result<Hierarchy> DivideByDomain(const CollectiveSpec& spec, const Topology& topology);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_HIERARCHY_H_
