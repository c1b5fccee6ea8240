#include "xla_patch/assigner/tuned_rule.h"

#include <optional>

#include "xla_patch/assigner/decision_trace.h"

namespace xla_shmem {
namespace {

std::string FormatInterval(const BackendTime& time) {
  return FormatTime(time.low_us) + " to " + FormatTime(time.high_us);
}

// The number that was measured, and the one that it stands for if that is another.
std::string NumberFor(int64_t measured, int64_t wanted) {
  return std::to_string(measured) + (measured == wanted ? "" : " for " + std::to_string(wanted));
}

// A collective, as a table has it.
struct Wanted {
  ElementType element_type = ElementType::kInvalid;
  int64_t group_size = 0;
  int64_t domains = 1;
};

// The measurement that an estimate comes from, and how it differs from the collective.
std::string DescribeSource(const CollectiveSpec& spec, const Wanted& wanted, const Estimate& estimate) {
  std::string text = ElementTypeName(estimate.element_type);
  if (IsReducing(spec.op) && estimate.element_type != wanted.element_type) {
    text += " for " + ElementTypeName(wanted.element_type);
  }
  text += ", groups of " + NumberFor(estimate.group_size, wanted.group_size);
  if (wanted.domains > 1) text += ", " + NumberFor(estimate.domains, wanted.domains) + " NVLink domains";
  if (estimate.smaller != estimate.larger) {
    return text + ", between " + FormatBytes(estimate.smaller) + " and " + FormatBytes(estimate.larger);
  }
  if (spec.bytes < estimate.smaller) return text + ", at " + FormatBytes(estimate.smaller) + ", the smallest size";
  if (spec.bytes > estimate.larger) return text + ", at " + FormatBytes(estimate.larger) + ", the largest size";
  return text;
}

}  // namespace

std::optional<MeasuredComparison> CompareMeasured(const CollectiveSpec& spec, int64_t domains,
                                                  const TuningTable& table) {
  const Wanted wanted = {spec.element_types.empty() ? ElementType::kInvalid : spec.element_types.front(),
                         CountGroups(spec).largest, domains};
  const std::optional<Estimate> estimate =
      table.Find(spec.op, wanted.element_type, wanted.group_size, spec.bytes, domains);
  if (!estimate.has_value()) return std::nullopt;
  const Backend ours = domains > 1 ? Backend::kHierarchical : Backend::kNvshmem;
  MeasuredComparison found = {Compare(estimate->nvshmem, estimate->on_default),
                              std::string(OpName(spec.op)) + " of " + FormatBytes(spec.bytes) + ": " +
                                  BackendName(ours) + " " + FormatTime(estimate->nvshmem.us) + ", DEFAULT " +
                                  FormatTime(estimate->on_default.us) + " measured (" +
                                  DescribeSource(spec, wanted, *estimate) + ")"};
  if (found.faster == Faster::kNeither) {
    found.reason +=
        ", which may be " + FormatInterval(estimate->nvshmem) + " and " + FormatInterval(estimate->on_default);
  }
  return found;
}

Decision DecideByTimes(const CollectiveSpec& spec, const TuningTable& table, const std::string& place) {
  const std::optional<MeasuredComparison> measured = CompareMeasured(spec, 1, table);
  if (!measured.has_value()) {
    return {Backend::kDefault, "tuned-unmeasured", std::string(OpName(spec.op)) + " is not in the tuning table"};
  }
  const std::string reason = place + "; " + measured->reason;
  switch (measured->faster) {
    case Faster::kNvshmem:
      return {Backend::kNvshmem, "tuned", reason};
    case Faster::kDefault:
      return {Backend::kDefault, "tuned", reason};
    case Faster::kNeither:
      break;
  }
  return {Backend::kDefault, "tuned-tie", reason};
}

}  // namespace xla_shmem
