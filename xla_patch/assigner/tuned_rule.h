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

// Why the pass must not choose a way that it could set for a collective: it would have no effect, or XLA or NCCL has an
// issue by which it hangs or loses data there, which is named. `in_one_process`: all devices of each group are.
Unsupported RefusedWay(Way way, const CollectiveSpec& spec, bool in_one_process);

// Profile `tuned`, for a collective whose devices may use NVSHMEM: of the ways that the options allow and the pass can
// set, the one that was measured to be the fastest. If it is not clearly faster than what XLA chooses, or nothing was
// measured, the collective stays as XLA chooses. `place` is the reason so far.
Decision DecideByTimes(const CollectiveSpec& spec, bool in_one_process, const Options& options,
                       const std::string& place);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_TUNED_RULE_H_
