#include "xla_patch/assigner/tuned_rule.h"

#include <optional>
#include <utility>
#include <vector>

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

// Whether the pass can choose the way for one collective of the op.
bool IsSettable(Way way, CollectiveOp op, const Options& options) {
  const bool has_op = way == Way::kNvshmem || (way == Way::kNccl && op == CollectiveOp::kAllReduce) ||
                      (way == Way::kOneSided && op == CollectiveOp::kAllGather);
  return has_op && (options.settable_ways & BitOf(way)) != 0;
}

std::string Place(const CollectiveSpec& spec) {
  return std::string(OpName(spec.op)) + " of " + FormatBytes(spec.bytes) + ": ";
}

Wanted WantedOf(const CollectiveSpec& spec, int64_t domains) {
  return {spec.element_types.empty() ? ElementType::kInvalid : spec.element_types.front(), CountGroups(spec).largest,
          domains};
}

// What the sentence says of a faster way that is not taken.
std::string NotTaken(const std::pair<Way, BackendTime>& measured, const std::string& why) {
  return "; " + std::string(InfoOf(measured.first).name) + " " + FormatTime(measured.second.us) + ", but " + why;
}

// Why a way is not among those to choose from.
Unsupported WhyNot(Way way, const CollectiveSpec& spec, bool in_one_process, const Options& options) {
  if (IsSettable(way, spec.op, options)) return RefusedWay(way, spec, in_one_process);
  const std::vector<std::string> flags = FlagsOf(way, spec.op);
  return flags.empty() ? "nothing chooses it" : "only " + flags.front() + " chooses it";
}

}  // namespace

Unsupported RefusedWay(Way way, const CollectiveSpec& spec, bool in_one_process) {
  if (way == Way::kNccl) {
    return spec.is_fused ? std::nullopt : Unsupported("XLA does not run it by a kernel of its own");
  }
  if (way != Way::kOneSided) return std::nullopt;
  if (!in_one_process) {
    return "between processes windows may differ and hang (openxla/xla issue 45406) or lose data (NVIDIA/nccl issue "
           "2198)";
  }
  if (CountGroups(spec).largest == 2) return "groups of two may hang (NVIDIA/nccl issue 2241)";
  return std::nullopt;
}

std::optional<MeasuredComparison> CompareMeasured(const CollectiveSpec& spec, int64_t domains,
                                                  const TuningTable& table) {
  const Wanted wanted = WantedOf(spec, domains);
  const std::optional<Estimate> estimate =
      table.Find(spec.op, wanted.element_type, wanted.group_size, spec.bytes, domains);
  if (!estimate.has_value()) return std::nullopt;
  const Backend ours = domains > 1 ? Backend::kHierarchical : Backend::kNvshmem;
  MeasuredComparison found = {Compare(estimate->nvshmem, estimate->on_default),
                              Place(spec) + BackendName(ours) + " " + FormatTime(estimate->nvshmem.us) + ", DEFAULT " +
                                  FormatTime(estimate->on_default.us) + " measured (" +
                                  DescribeSource(spec, wanted, *estimate) + ")"};
  if (found.faster == Faster::kNeither) {
    found.reason +=
        ", which may be " + FormatInterval(estimate->nvshmem) + " and " + FormatInterval(estimate->on_default);
  }
  return found;
}

Decision DecideByTimes(const CollectiveSpec& spec, bool in_one_process, const Options& options,
                       const std::string& place) {
  const Wanted wanted = WantedOf(spec, 1);
  const std::optional<Estimate> estimate =
      options.tuning.Find(spec.op, wanted.element_type, wanted.group_size, spec.bytes);
  if (!estimate.has_value()) {
    return {Backend::kDefault, "tuned-unmeasured", std::string(OpName(spec.op)) + " is not in the tuning table"};
  }
  std::string times;
  std::string not_taken;
  std::vector<std::pair<Way, BackendTime>> fastest;  // or nothing
  const auto consider = [&](const std::pair<Way, BackendTime>& one) {
    if ((options.ways & BitOf(one.first)) == 0) return;
    if (const Unsupported why = WhyNot(one.first, spec, in_one_process, options); why.has_value()) {
      if (Compare(one.second, estimate->on_default) == Faster::kNvshmem) not_taken += NotTaken(one, *why);
      return;
    }
    times += std::string(InfoOf(one.first).name) + " " + FormatTime(one.second.us) + ", ";
    if (fastest.empty() || one.second.us < fastest[0].second.us) fastest.assign(1, one);
  };
  consider({Way::kNvshmem, estimate->nvshmem});
  for (const auto& one : estimate->ways) consider(one);
  std::string reason = place + "; " + Place(spec) + times + "DEFAULT " + FormatTime(estimate->on_default.us) +
                       " measured (" + DescribeSource(spec, wanted, *estimate) + ")";
  const Faster faster = fastest.empty() ? Faster::kDefault : Compare(fastest[0].second, estimate->on_default);
  if (faster == Faster::kNeither) {
    reason += ", which may be " + FormatInterval(fastest[0].second) + " and " + FormatInterval(estimate->on_default);
  }
  reason += not_taken;
  if (faster != Faster::kNvshmem) {
    return {Backend::kDefault, faster == Faster::kNeither ? "tuned-tie" : "tuned", reason};
  }
  const Way way = fastest.front().first;
  Decision decision = {way == Way::kNvshmem ? Backend::kNvshmem : Backend::kDefault, "tuned", reason};
  if (decision.backend == Backend::kDefault) decision.way = way;
  return decision;
}

}  // namespace xla_shmem
