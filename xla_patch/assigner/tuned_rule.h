#ifndef XLA_SHMEM_ASSIGNER_TUNED_RULE_H_
#define XLA_SHMEM_ASSIGNER_TUNED_RULE_H_

#include <string>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/tuning.h"

namespace xla_shmem {

// Profile `tuned`, for a collective whose devices may use NVSHMEM: the backend that was measured to be faster. If
// neither is clearly faster, or nothing was measured, the collective stays on DEFAULT. `place` is the reason so far.
Decision DecideByTimes(const CollectiveSpec& spec, const TuningTable& table, const std::string& place);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TUNED_RULE_H_
