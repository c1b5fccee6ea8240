#ifndef XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_
#define XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_

#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/record.h"

namespace xla_shmem {

// Lists the collectives of any HloModuleProto as it stands, with what this pass or stock XLA wrote about them. Decides
// nothing.
bool InspectModule(std::string_view module, std::vector<CollectiveRecord>* records, std::string* error);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_
