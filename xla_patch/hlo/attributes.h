#ifndef XLA_SHMEM_HLO_ATTRIBUTES_H_
#define XLA_SHMEM_HLO_ATTRIBUTES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xla_shmem::hlo {

// Frontend attributes (xla.FrontendAttributes, a map of strings) that the pass writes on the collectives it looked at.
// Dumps show them, and InspectModule reads them back. All keys start with "xla_shmem.".
namespace attribute {
constexpr std::string_view kPrefix = "xla_shmem.";
constexpr const char* kBackend = "xla_shmem.backend";  // the decision
constexpr const char* kLowered = "xla_shmem.lowered";  // the decision after vetoes
constexpr const char* kRule = "xla_shmem.rule";
constexpr const char* kReason = "xla_shmem.reason";
constexpr const char* kVeto = "xla_shmem.veto";            // only when vetoed
constexpr const char* kGroups = "xla_shmem.groups";        // "<number>x<size>"
constexpr const char* kPairs = "xla_shmem.pairs";          // number of pairs of a permute
constexpr const char* kReduction = "xla_shmem.reduction";  // of an all-reduce
constexpr const char* kOp = "xla_shmem.op";                // on rewritten instructions: what they were
}  // namespace attribute

using Attributes = std::map<std::string, std::string>;

// The contents of the field in an HloInstructionProto: one, unless it is repeated.
std::vector<std::string_view> AttributeFields(std::string_view instruction);

// False if an entry of the map cannot be read.
bool AreWellFormed(std::string_view proto);

// Our keys among all occurrences of the field. Malformed entries are passed over.
Attributes ReadOwnAttributes(const std::vector<std::string_view>& protos);

// The field's new content: entries of others byte for byte and in place, then ours.
std::string MergeAttributes(const std::vector<std::string_view>& protos, const Attributes& own);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_ATTRIBUTES_H_
