#ifndef XLA_SHMEM_HLO_REWRITE_PART_RECORD_H_
#define XLA_SHMEM_HLO_REWRITE_PART_RECORD_H_

#include <string>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/record.h"

namespace xla_shmem::hlo {

// Adds a record for a part of a divided collective to `parts`, with what it has in common with the record of the
// `whole`. Returns the attributes of the part's instruction. `does`: what the part does.
Attributes RecordPart(const CollectiveSpec& part, Backend backend, const std::string& does,
                      const CollectiveRecord& whole, std::vector<CollectiveRecord>* parts);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_PART_RECORD_H_
