#ifndef XLA_SHMEM_ASSIGNER_COLLECTIVE_SPEC_H_
#define XLA_SHMEM_ASSIGNER_COLLECTIVE_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/assigner/topology.h"
#include "xla_patch/types/collective_op.h"
#include "xla_patch/types/element_type.h"
#include "xla_patch/types/reduction_kind.h"

namespace xla_shmem {

// Groups of global device ids: group i is devices[offsets[i], offsets[i + 1]).
struct DeviceGroups {
  std::vector<int64_t> devices;
  std::vector<int64_t> offsets = {0};
  int64_t size() const { return static_cast<int64_t>(offsets.size()) - 1; }
  // Members of each group; 0 if there are none, or if groups differ in size.
  int64_t common_size() const;
};

// Why a collective is not supported, with the value and the limit; none if it is supported.
using Unsupported = std::optional<std::string>;

// One collective without types of XLA: the input of the rules and the transport.
struct CollectiveSpec {
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::string name;                                // HLO name, for sentences only
  int64_t bytes = 0;                               // result bytes, tuple elements summed
  std::vector<ElementType> element_types;          // one per result element, in order
  std::optional<ReductionKind> reduction;          // none if its computation is unknown
  DeviceGroups groups;                             // empty for a permute
  std::vector<std::pair<int64_t, int64_t>> pairs;  // source and target device; only for a permute
  ModulePlacement module;
  bool is_fused = false;                 // it is all that a fusion of XLA:GPU does
  Unsupported unsupported_participants;  // why groups or pairs could not be read
  Unsupported unsupported_by_xla;        // why the default backend cannot run it at all
};

// The number of groups, and the devices of the largest. The groups of a permute are the sets of devices that pairs
// connect: rings and chains.
struct GroupCount {
  int64_t number = 0;
  int64_t largest = 0;
};
GroupCount CountGroups(const CollectiveSpec& spec);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_COLLECTIVE_SPEC_H_
