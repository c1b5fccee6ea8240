#ifndef XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_
#define XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_

#include <string_view>
#include <vector>

#include "xla_patch/assigner/record.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// Lists the collectives of any HloModuleProto as it stands, with what this pass or stock XLA wrote about them. Decides
// nothing. An error if the bytes are not a well-formed module.
Result<std::vector<CollectiveRecord>> InspectModule(std::string_view module);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_
