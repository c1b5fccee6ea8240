#ifndef XLA_SHMEM_ASSIGNER_DECISION_TRACE_H_
#define XLA_SHMEM_ASSIGNER_DECISION_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace xla_shmem {

struct Options;

// The answer of a rule. The last rule that names a backend decides.
enum class Verdict : uint8_t { kNotAsked, kPassed, kDefault, kNvshmem, kHierarchical };
const char* VerdictName(Verdict verdict);  // "not asked", "passed", and the backends

// Asked last, only of collectives that cross NVLink domains.
constexpr const char* kHierarchicalRule = "hierarchical";

// One rule applied to one collective.
struct RuleStep {
  std::string rule;
  std::string question;
  std::string evidence;  // the reason for the verdict, with the numbers; empty if the rule was not asked
  Verdict verdict = Verdict::kNotAsked;
};
using DecisionTrace = std::vector<RuleStep>;

// Adds a rule to `trace`. If `trace` is null, `evidence` is not called and nothing is allocated.
template <typename Evidence>
void Note(DecisionTrace* trace, const char* rule, Verdict verdict, Evidence evidence) {
  if (trace != nullptr) trace->push_back({rule, "", evidence(), verdict});
}

// Puts the rules of the options in the order in which they are asked, adds their questions, and adds the rules that
// were not asked.
void CompleteDecisionTrace(const Options& options, DecisionTrace* trace);

// A number of bytes in a reason: "512 B", "4.0 KiB", "16.0 MiB": binary units, one decimal.
std::string FormatBytes(int64_t bytes);

// A time in a reason: "2.1 µs", "310 µs", "12.4 ms"; "not run" for an infinite time.
std::string FormatTime(double us);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_DECISION_TRACE_H_
