#include "xla_patch/assigner/decision_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "xla_patch/assigner/assigner.h"

namespace xla_shmem {
namespace {

// Profiles in which a rule is asked.
constexpr int kUpstream = 1, kDomain = 2, kTuned = 4, kAll = kUpstream | kDomain | kTuned;

constexpr std::string_view kModelRule = "model";
// Listed only where they decide.
constexpr std::string_view kNoThunkRule = "no-stock-thunk";
constexpr std::string_view kUnlistedRule = "unlisted-backend";

struct Rule {
  std::string_view name;
  const char* question;
  int profiles;
};

int BitOf(Profile profile) {
  switch (profile) {
    case Profile::kUpstream:
      return kUpstream;
    case Profile::kDomain:
      return kDomain;
    case Profile::kTuned:
      break;
  }
  return kTuned;
}

// In the order of Decide and DecideAndRecord.
constexpr Rule kRules[] = {
    {"unconsidered-op", "Is the op one that the options consider?", kAll},
    {"unresolved-groups", "Are its groups or pairs valid?", kAll},
    {"unknown-device", "Does the topology have all its devices?", kAll},
    {kNoThunkRule, "Can the default backend run it?", kAll},
    {"single-device", "Does every process have one device?", kUpstream},
    {"single-partition", "Does every group or pair lie in one process?", kUpstream},
    {"nvlink-domain", "Do all devices of the module lie in one NVLink domain?", kUpstream},
    {"group-in-domain", "Does every group or pair lie in one NVLink domain?", kDomain | kTuned},
    {"size", "Is the result smaller than the limit?", kAll},
    {kUnlistedRule, "May NVSHMEM be chosen?", kUpstream | kDomain},
    {kModelRule, "Which backend does the cost model expect to be faster?", kUpstream | kDomain},
    {"tuned", "Which way was measured to be faster?", kTuned},
    {"form", "Can this form of instruction be replaced?", kAll},
    {"transport", "Does the transport carry it?", kAll},
    {kHierarchicalRule, "Is it faster in parts within NVLink domains and between them?", kAll},
};

}  // namespace

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kDefault:
      return "DEFAULT";
    case Verdict::kNvshmem:
      return "NVSHMEM";
    case Verdict::kHierarchical:
      return "HIERARCHICAL";
    case Verdict::kNotAsked:
      break;
  }
  return "not asked";
}

void CompleteDecisionTrace(const Options& options, DecisionTrace* trace) {
  DecisionTrace complete;
  for (const Rule& rule : kRules) {
    const auto asked =
        std::find_if(trace->begin(), trace->end(), [&](const RuleStep& step) { return step.rule == rule.name; });
    const bool has_answer =
        (rule.name != kModelRule || options.gpu != GpuGeneration::kUnknown) &&
        ((rule.name != kNoThunkRule && rule.name != kUnlistedRule && rule.name != kHierarchicalRule) ||
         asked != trace->end());
    if ((rule.profiles & BitOf(options.profile)) == 0 || !has_answer) continue;
    complete.push_back(asked == trace->end() ? RuleStep{std::string(rule.name), "", "", Verdict::kNotAsked}
                                             : std::move(*asked));
    complete.back().question = rule.question;
  }
  *trace = std::move(complete);
}

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string FormatTime(double us) {
  if (std::isinf(us)) return "not run";
  const bool in_ms = us >= 9999.5;
  const double value = in_ms ? us / 1000 : us;
  char text[32];
  std::snprintf(text, sizeof(text), value < 99.95 ? "%.1f %s" : "%.0f %s", value, in_ms ? "ms" : "µs");
  return text;
}

}  // namespace xla_shmem
