#include "xla_patch/assigner/model_rule.h"

#include <optional>
#include <utility>

#include "xla_patch/assigner/decision_trace.h"

namespace xla_shmem {
namespace {

std::optional<ExpectedTimes> Expect(const CollectiveSpec& spec, const Options& options) {
  return ExpectTimes(spec.op, spec.bytes, CountGroups(spec).largest, spec.module.num_devices, options.gpu);
}

// "NVSHMEM 27.4 µs, DEFAULT 41.0 µs expected (hopper, groups of 8; a model, not measured)"
std::string Describe(const CollectiveSpec& spec, const Options& options, const ExpectedTimes& times) {
  return "NVSHMEM " + FormatTime(times.nvshmem_us) + ", DEFAULT " + FormatTime(times.nccl_us) + " expected (" +
         GpuGenerationName(options.gpu) + ", groups of " + std::to_string(CountGroups(spec).largest) +
         "; a model, not measured)";
}

}  // namespace

bool DecidesByModel(const Options& options) {
  return options.profile == Profile::kDomain && options.gpu != GpuGeneration::kUnknown &&
         options.threshold == kDefaultThresholdBytes;
}

Decision DecideByModel(const CollectiveSpec& spec, const Options& options, Decision placed, DecisionTrace* trace) {
  const std::optional<ExpectedTimes> times = Expect(spec, options);
  if (!times.has_value()) return placed;
  const bool is_faster = times->nvshmem_us < times->nccl_us;
  Decision decision = {is_faster ? Backend::kNvshmem : Backend::kDefault, "model",
                       std::move(placed.reason) + "; " + Describe(spec, options, *times)};
  Note(trace, "model", is_faster ? Verdict::kNvshmem : Verdict::kDefault, [&] { return decision.reason; });
  return decision;
}

std::optional<std::string> ExpectDefaultFaster(const CollectiveSpec& spec, const Options& options,
                                               DecisionTrace* trace) {
  const std::optional<ExpectedTimes> times = Expect(spec, options);
  if (!times.has_value()) return std::nullopt;
  std::string both = Describe(spec, options, *times);
  Note(trace, "model", Verdict::kPassed, [&] { return both; });
  return times->nccl_us < times->nvshmem_us ? std::make_optional("NCCL may be faster: " + both) : std::nullopt;
}

}  // namespace xla_shmem
