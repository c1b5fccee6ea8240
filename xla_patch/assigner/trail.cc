#include "xla_patch/assigner/trail.h"

#include <algorithm>
#include <utility>

#include "xla_patch/assigner/assigner.h"

namespace xla_shmem {
namespace {

struct Rule {
  const char* name;
  const char* question;
  bool in_blog;
  bool in_domain;
};

// In the order of Decide and Settle.
constexpr Rule kRules[] = {
    {"unconsidered-op", "Is the op one that the options consider?", true, true},
    {"unresolved-groups", "Do its groups or pairs make sense?", true, true},
    {"unknown-device", "Does the topology have all its devices?", true, true},
    {"single-device", "Has every process one device?", true, false},
    {"single-partition", "Does every group or pair lie in one process?", true, false},
    {"nvlink-domain", "Do all devices of the module lie in one NVLink domain?", true, false},
    {"group-in-domain", "Does every group or pair lie in one NVLink domain?", false, true},
    {"size", "Is the result smaller than the limit?", true, true},
    {"form", "Can this form of instruction be replaced?", true, true},
    {"transport", "Does the transport carry it?", true, true},
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
    case Verdict::kNotAsked:
      break;
  }
  return "not asked";
}

void CompleteTrail(Profile profile, Trail* trail) {
  Trail complete;
  for (const Rule& rule : kRules) {
    if (profile == Profile::kDomain ? !rule.in_domain : !rule.in_blog) {
      continue;
    }
    const auto asked =
        std::find_if(trail->begin(), trail->end(), [&](const RuleStep& step) { return step.rule == rule.name; });
    complete.push_back(asked == trail->end() ? RuleStep{rule.name, "", "", Verdict::kNotAsked} : std::move(*asked));
    complete.back().question = rule.question;
  }
  *trail = std::move(complete);
}

}  // namespace xla_shmem
