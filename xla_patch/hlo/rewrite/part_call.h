#ifndef XLA_SHMEM_HLO_REWRITE_PART_CALL_H_
#define XLA_SHMEM_HLO_REWRITE_PART_CALL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/types/part_target.h"

namespace xla_shmem::hlo {

// The custom call of a part of a divided collective (thunks/cpu/collective_parts.h). Its attributes are those of
// call_arguments.h, and of the op's own:
//
//   part_bytes, positions  all but permute and broadcast: the parts of the whole array, as many for each PE of `groups`
//   received_by            permute: PEs that take their result from the second operand
//   sources                broadcast: for each group, the operand that its first PE sends
struct PartCall {
  PartTarget target = PartTarget::kReduceScatter;
  CollectiveOp op = CollectiveOp::kReduceScatter;
  DeviceGroups groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  int64_t part_bytes = 0;
  int64_t parts = 0;  // positions for each device
  std::vector<int64_t> positions;
  std::vector<int64_t> received_by;  // devices
  std::vector<int64_t> sources;
};

// `number`: of the part, which tells its messages from those of the others.
CustomCall WritePartCall(const Module& module, const Collective& collective, const Topology& topology,
                         const PartCall& part, const std::string& name, int64_t number);

// Adds a record for a part of a divided collective to `parts`, with what it has in common with the record of the
// `whole`. Returns the attributes of the part's instruction. `does`: what the part does.
Attributes RecordPart(const CollectiveSpec& part, Backend backend, const std::string& does,
                      const CollectiveRecord& whole, std::vector<CollectiveRecord>* parts);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_PART_CALL_H_
