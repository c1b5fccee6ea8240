#ifndef XLA_SHMEM_HLO_PROTO_RECORD_H_
#define XLA_SHMEM_HLO_PROTO_RECORD_H_

#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/proto/collective.h"
#include "xla_patch/hlo/proto/module_reader.h"

namespace xla_shmem::hlo {

// The part of a record that does not depend on the decision.
CollectiveRecord DescribeCollective(const Module& module, const Collective& collective);

// Whether it is a part of a divided collective, which the pass wrote.
bool IsPart(const Collective& collective);

// Whether this pass has chosen the way in which XLA runs it.
bool HasChosenWay(const Collective& collective);

// Reads what this pass or stock XLA wrote about a collective. False if it is not listed: a done of ours (its start is
// listed), or a custom call with our prefix that the pass did not write.
bool ReadRecord(const Module& module, const Collective& collective, CollectiveRecord* record);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_RECORD_H_
