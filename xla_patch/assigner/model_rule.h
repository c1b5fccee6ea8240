#ifndef XLA_SHMEM_ASSIGNER_MODEL_RULE_H_
#define XLA_SHMEM_ASSIGNER_MODEL_RULE_H_

#include <optional>
#include <string>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/decision_trace.h"

namespace xla_shmem {

// True if the cost model replaces limits on size: profile `domain` on a known GPU, with the default threshold. A limit
// of XLA_SHMEM_OPS still holds.
bool DecidesByModel(const Options& options);

// Asks the cost model about a collective whose devices may use NVSHMEM. `placed` is the decision so far, which stands
// if there is no model of the op.
Decision DecideByModel(const CollectiveSpec& spec, const Options& options, Decision placed, DecisionTrace* trace);

// For a decision that does not go by the model: a sentence with both times if the model expects DEFAULT to be faster.
std::optional<std::string> ExpectDefaultFaster(const CollectiveSpec& spec, const Options& options,
                                               DecisionTrace* trace);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_MODEL_RULE_H_
