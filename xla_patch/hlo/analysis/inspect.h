#ifndef XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_
#define XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/decision_trace.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/rewrite/pass_options.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// Lists the collectives of any HloModuleProto as it stands, with what this pass or stock XLA wrote about them. Decides
// nothing. An error if the bytes are not a well-formed module.
Result<std::vector<CollectiveRecord>> InspectModule(std::string_view module);

// One collective: the record that the module holds, and the one that the rules give with these options.
struct Explanation {
  CollectiveRecord written;  // as InspectModule lists it
  CollectiveRecord decided;
  DecisionTrace trace;  // empty if its participants are not known
  DeviceGroups groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;  // of a permute
  std::string shape;                               // of its result, as ShapeText writes it
};

// Explains every collective that InspectModule lists, in that order. Rewritten collectives are read back, PEs
// being those of the topology given. Changes nothing. An error if the bytes are not a well-formed module.
Result<std::vector<Explanation>> ExplainModule(std::string_view module, const PassOptions& options);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_ANALYSIS_INSPECT_H_
