#ifndef XLA_SHMEM_ASSIGNER_ASSIGNER_H_
#define XLA_SHMEM_ASSIGNER_ASSIGNER_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "xla_patch/assigner/collective_spec.h"
#include "xla_patch/assigner/cost_model.h"
#include "xla_patch/assigner/decision_trace.h"
#include "xla_patch/assigner/topology.h"
#include "xla_patch/assigner/tuning.h"
#include "xla_patch/assigner/way.h"

namespace xla_shmem {

// kUpstream follows the published rules of upstream's assigner. kDomain requires of each group that it lies in one
// NVLink domain; with the default threshold and a known GPU it then decides by the cost model. kTuned requires the
// same, and then decides by measured times instead of sizes.
enum class Profile { kUpstream, kDomain, kTuned };

// xla/backends/gpu/transforms/collectives/collective_backend_assigner.h of 2026-02 used the same 16 MiB.
constexpr int64_t kDefaultThresholdBytes = int64_t{16} << 20;
constexpr int64_t kNoThreshold = std::numeric_limits<int64_t>::max();

// An op that the rules may move to NVSHMEM, if its result is strictly smaller than `limit` bytes.
struct ConsideredOp {
  CollectiveOp op;
  std::optional<int64_t> limit;  // none: all-reduces have the threshold, other ops any size
};

// Whether collectives that cross NVLink domains are divided (hierarchical_rule.h). kAuto: if that is expected to be
// faster.
enum class Hierarchical { kAuto, kOff, kOn };

struct Options {
  Profile profile = Profile::kUpstream;
  int64_t threshold = kDefaultThresholdBytes;  // an all-reduce must be strictly smaller; ignored by kTuned
  // The ops of XLA_SHMEM_OPS. Empty: the published two, all-reduce and collective-permute; for kTuned all.
  std::vector<ConsideredOp> ops;
  TuningTable tuning;                           // of kTuned
  GpuGeneration gpu = GpuGeneration::kUnknown;  // for the cost model
  Hierarchical hierarchical = Hierarchical::kAuto;
  Ways ways = kEveryWay;  // of XLA_SHMEM_BACKENDS: what may be chosen. XLA's own choice always may
  // What the pass can choose for one collective in this release of XLA; the other ways need flags (FlagsOf).
  Ways settable_ways = BitOf(Way::kNvshmem);
};

// kHierarchical: parts within NVLink domains on SHMEM, and a part between them on the default backend. Decide never
// returns it; DecideAndRecord (record.h) does.
enum class Backend { kDefault, kNvshmem, kHierarchical };
const char* BackendName(Backend backend);  // "DEFAULT", "NVSHMEM", "HIERARCHICAL"

// The backend, the name of the rule that decided, and a sentence with the numbers.
//
//   NVSHMEM: no-stock-thunk (the default backend cannot run it, so neither the options nor placement are asked);
//            single-device, single-partition, nvlink-domain (upstream); group-in-domain (domain); model (domain); tuned
//   DEFAULT: unlisted-backend (XLA_SHMEM_BACKENDS has no nvshmem), size, no-placement (upstream), group-across-domains
//   (domain, tuned), unconsidered-op, model, tuned,
//            tuned-tie (neither was measured to be faster), tuned-unmeasured (the table lacks the op),
//            unresolved-groups and unknown-device (the module and the topology contradict each other)
struct Decision {
  Backend backend = Backend::kDefault;
  std::string rule;
  std::string reason;
  // For NVSHMEM by a rule that does not ask the cost model, if that expects DEFAULT to be faster: a sentence with both
  // times.
  std::optional<std::string> model = std::nullopt;
  // DEFAULT by rule tuned: the way that XLA must take, if it was measured to be faster than what XLA chooses.
  std::optional<Way> way = std::nullopt;
  // DEFAULT only because a group or pair crosses NVLink domains.
  bool crosses_domains = false;
};

// True for the collectives that Decide may move to NVSHMEM at all.
bool IsConsidered(const CollectiveSpec& spec, const Options& options);

// Pure: depends on its arguments only, so every rank decides the same. Placement comes before size and times. `trace`,
// if not null, gets every rule that is asked.
Decision Decide(const CollectiveSpec& spec, const Topology& topology, const Options& options,
                DecisionTrace* trace = nullptr);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_ASSIGNER_H_
