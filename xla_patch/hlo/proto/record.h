#ifndef XLA_SHMEM_HLO_PROTO_RECORD_H_
#define XLA_SHMEM_HLO_PROTO_RECORD_H_

#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// Everything about a collective that does not depend on the decision.
CollectiveRecord DescribeCollective(const Module& module, const Collective& collective);

// What this pass or stock XLA wrote about it. False if it is not to be listed: a done of ours, whose start is, or a
// custom call of such a name that the pass did not write.
bool ReadRecord(const Module& module, const Collective& collective, CollectiveRecord* record);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_RECORD_H_
