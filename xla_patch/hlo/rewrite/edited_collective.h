#ifndef XLA_SHMEM_HLO_REWRITE_EDITED_COLLECTIVE_H_
#define XLA_SHMEM_HLO_REWRITE_EDITED_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/participants.h"
#include "xla_patch/assigner/record.h"

namespace xla_shmem::hlo {

// What changes in an instruction of XLA; none: it stays.
struct InstructionChange {
  std::optional<int64_t> id;
  std::optional<std::string> shape;
  std::optional<std::vector<int64_t>> operands;
  std::optional<IdGroups> groups;
  std::optional<std::vector<std::pair<int64_t, int64_t>>> pairs;
  std::optional<Attributes> attributes;  // ours; all others stay
};
// The HloInstructionProto `body` with these changes.
std::string ChangeInstruction(std::string_view body, const InstructionChange& change);

// The ShapeProto of an array with another size of one dimension, and that of a tuple with other elements.
std::string WithDimension(std::string_view shape, size_t dimension, int64_t size);
std::string WithElements(std::string_view tuple, const std::vector<std::pair<size_t, std::string>>& elements);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_EDITED_COLLECTIVE_H_
