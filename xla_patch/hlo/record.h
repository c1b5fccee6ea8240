#ifndef XLA_SHMEM_HLO_RECORD_H_
#define XLA_SHMEM_HLO_RECORD_H_

#include "xla_patch/hlo/attributes.h"
#include "xla_patch/hlo/collective_reader.h"
#include "xla_patch/hlo/pass.h"

namespace xla_shmem::hlo {

// Everything about a collective that does not depend on the decision.
CollectiveRecord DescribeCollective(const Module& module, const Collective& collective);

// Decision and description as the attributes of an instruction, and back. Reading leaves fields whose attribute is
// missing alone.
Attributes RecordToAttributes(const CollectiveRecord& record);
void AttributesToRecord(const Attributes& attributes, CollectiveRecord* record);

// The record of a collective that the rules do not look at: it stays with XLA.
void MarkUnconsidered(const CollectiveSpec& spec, CollectiveRecord* record);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_RECORD_H_
