#ifndef XLA_SHMEM_HLO_PROTO_ATTRIBUTES_H_
#define XLA_SHMEM_HLO_PROTO_ATTRIBUTES_H_

#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/assigner/record.h"

namespace xla_shmem::hlo {

// The contents of the field in an HloInstructionProto: one, unless it is repeated.
std::vector<std::string_view> AttributeFields(std::string_view instruction);

// False if an entry of the map cannot be read.
bool AreWellFormed(std::string_view proto);

// Our keys among all occurrences of the field. Malformed entries are skipped.
Attributes ReadOwnAttributes(const std::vector<std::string_view>& protos);

// The field's new content: all other entries byte for byte and in place, then ours.
std::string MergeAttributes(const std::vector<std::string_view>& protos, const Attributes& own);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_ATTRIBUTES_H_
