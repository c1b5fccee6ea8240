#include "xla_patch/assigner/tuned_rule.h"

#include <optional>

#include "xla_patch/assigner/quantities.h"

namespace xla_shmem {
namespace {

std::string FormatInterval(const BackendTime& time) {
  return FormatTime(time.low_us) + " to " + FormatTime(time.high_us);
}

// The measurement that an estimate comes from, and how it differs from the collective.
std::string DescribeSource(const CollectiveSpec& spec, ElementType element_type, int64_t group_size,
                           const Estimate& estimate) {
  std::string text = ElementTypeName(estimate.element_type);
  if (IsReducing(spec.op) && estimate.element_type != element_type) {
    text += " for " + ElementTypeName(element_type);
  }
  text += ", groups of " + std::to_string(estimate.group_size);
  if (estimate.group_size != group_size) {
    text += " for " + std::to_string(group_size);
  }
  if (estimate.smaller != estimate.larger) {
    return text + ", between " + FormatBytes(estimate.smaller) + " and " + FormatBytes(estimate.larger);
  }
  if (spec.bytes < estimate.smaller) {
    return text + ", at " + FormatBytes(estimate.smaller) + ", the smallest size";
  }
  if (spec.bytes > estimate.larger) {
    return text + ", at " + FormatBytes(estimate.larger) + ", the largest size";
  }
  return text;
}

}  // namespace

Decision DecideByTimes(const CollectiveSpec& spec, const TuningTable& table, const std::string& place) {
  const ElementType element_type = spec.element_types.empty() ? ElementType::kInvalid : spec.element_types.front();
  const int64_t group_size = CountGroups(spec).largest;
  const std::optional<Estimate> estimate = table.Find(spec.op, element_type, group_size, spec.bytes);
  if (!estimate.has_value()) {
    return {Backend::kDefault, "tuned-unmeasured", std::string(OpName(spec.op)) + " is not in the tuning table"};
  }
  std::string reason = place + "; " + OpName(spec.op) + " of " + FormatBytes(spec.bytes) + ": NVSHMEM " +
                       FormatTime(estimate->nvshmem.us) + ", DEFAULT " + FormatTime(estimate->on_default.us) +
                       " measured (" + DescribeSource(spec, element_type, group_size, *estimate) + ")";
  switch (Compare(estimate->nvshmem, estimate->on_default)) {
    case Faster::kNvshmem:
      return {Backend::kNvshmem, "tuned", reason};
    case Faster::kDefault:
      return {Backend::kDefault, "tuned", reason};
    case Faster::kNeither:
      break;
  }
  return {
      Backend::kDefault, "tuned-tie",
      reason + ", which may be " + FormatInterval(estimate->nvshmem) + " and " + FormatInterval(estimate->on_default)};
}

}  // namespace xla_shmem
