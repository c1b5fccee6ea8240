#ifndef XLA_SHMEM_ASSIGNER_TUNED_RULE_H_
#define XLA_SHMEM_ASSIGNER_TUNED_RULE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "xla_patch/assigner/assigner.h"
#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/tuning.h"

namespace xla_shmem {

// The times that a table gives for a collective, whose groups span `domains` NVLink domains: which backend is faster,
// and a sentence with both times. With several domains NVSHMEM stands for the divided collective.
struct MeasuredComparison {
  Faster faster = Faster::kNeither;
  std::string reason;
};
std::optional<MeasuredComparison> CompareMeasured(const CollectiveSpec& spec, int64_t domains,
                                                  const TuningTable& table);

// Profile `tuned`, for a collective whose devices may use NVSHMEM: the backend that was measured to be faster. If
// neither is clearly faster, or nothing was measured, the collective stays on DEFAULT. `place` is the reason so far.
Decision DecideByTimes(const CollectiveSpec& spec, const TuningTable& table, const std::string& place);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TUNED_RULE_H_
