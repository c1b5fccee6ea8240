#ifndef XLA_SHMEM_HLO_PROTO_GROUP_LIST_H_
#define XLA_SHMEM_HLO_PROTO_GROUP_LIST_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/participants.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// Decoders of replica groups as lists of ids and as iotas; mesh_groups.h has the fourth encoding. `max_ids` bounds
// the ids that may be allocated; a compact form that stands for more is an error.
Status AppendReplicaGroup(std::string_view proto, int64_t max_ids, IdGroups* groups);
Result<IdGroups> ReadDeviceList(std::string_view proto, int64_t max_ids);
Result<IdGroups> ReadIotaList(std::string_view proto, int64_t max_ids);

// iota(product(dims)) reshaped to `dims`, transposed by `perm` and flattened. An empty `perm` is the identity.
Result<std::vector<int64_t>> TransposedIota(const std::vector<int64_t>& dims, const std::vector<int64_t>& perm,
                                            int64_t max_ids);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_GROUP_LIST_H_
