#ifndef XLA_SHMEM_ASSIGNER_DECISION_TRACE_H_
#define XLA_SHMEM_ASSIGNER_DECISION_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace xla_shmem {

enum class Profile;

// What a rule said of a collective. The last one that names a backend decides.
enum class Verdict : uint8_t { kNotAsked, kPassed, kDefault, kNvshmem };
const char* VerdictName(Verdict verdict);  // "not asked", "passed", "DEFAULT", "NVSHMEM"

// One rule as it was put to a collective.
struct RuleStep {
  std::string rule;
  std::string question;
  std::string evidence;  // what the answer rests on, with the numbers; empty if it was not asked
  Verdict verdict = Verdict::kNotAsked;
};
using DecisionTrace = std::vector<RuleStep>;

// Notes a rule where somebody wants the trace; `evidence` is called, and anything allocated, only then.
template <typename Evidence>
void Note(DecisionTrace* trace, const char* rule, Verdict verdict, Evidence evidence) {
  if (trace != nullptr) {
    trace->push_back({rule, "", evidence(), verdict});
  }
}

// Puts the rules of the profile in the order in which they are asked, with their questions and with those that nobody
// got to.
void CompleteDecisionTrace(Profile profile, DecisionTrace* trace);

}  // namespace xla_shmem

#endif  // XLA_SHMEM_ASSIGNER_DECISION_TRACE_H_
