#ifndef XLA_SHMEM_HLO_ANALYSIS_EXPLAIN_H_
#define XLA_SHMEM_HLO_ANALYSIS_EXPLAIN_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/decision_trace.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/rewrite/pass_options.h"
#include "xla_patch/types/status.h"

namespace xla_shmem {

// One collective: what the module says of it, and what the rules say with the options given.
struct Explanation {
  CollectiveRecord written;  // as InspectModule lists it
  CollectiveRecord decided;
  DecisionTrace trace;  // empty if it cannot be told who takes part in it
  DeviceGroups groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;  // of a permute
};

// Explains every collective that InspectModule lists, in that order. What this pass has rewritten is read back, PEs
// being those of the topology given. Changes nothing. An error if the bytes are not a well-formed module.
Result<std::vector<Explanation>> ExplainModule(std::string_view module, const PassOptions& options);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_HLO_ANALYSIS_EXPLAIN_H_
