// Instructions that XLA did not write, as HloInstructionProto bytes.
#ifndef XLA_SHMEM_HLO_REWRITE_NEW_INSTRUCTIONS_H_
#define XLA_SHMEM_HLO_REWRITE_NEW_INSTRUCTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/participants.h"
#include "xla_patch/assigner/record.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/types/element_type.h"

namespace xla_shmem::hlo {

// xla.ShapeProto of a vector, and of a tuple of shapes.
std::string VectorShape(ElementType type, int64_t elements);
std::string TupleShape(const std::vector<std::string>& elements);

// What tells a new instruction from all others of its module.
struct NewName {
  std::string name;
  int64_t id = 0;
};

// A bitcast: the operand's bytes under another shape.
NewInstruction Bitcast(const NewName& name, std::string_view shape, int64_t operand);
// An element of a tuple.
NewInstruction TupleElement(const NewName& name, std::string_view shape, int64_t operand, int64_t index);

// A custom call with side effects that takes no other instruction's place. Its name ends in its id.
struct CallForm {
  const char* target;
  const char* name;
  std::string backend_config;
  std::string_view shape;  // a ShapeProto
  std::vector<int64_t> operands;
  // NOLINTNEXTLINE(readability-redundant-member-init): may be left out
  std::vector<Aliasing> aliasing = {};
};
NewInstruction NewCall(const CallForm& form, int64_t id);

// Appends the fields of a collective's groups, and of a permute's pairs.
void WriteGroups(const IdGroups& groups, std::string* out);
void WritePairs(const std::vector<std::pair<int64_t, int64_t>>& pairs, std::string* out);

// The same value in a buffer of its own.
NewInstruction Copy(const NewName& name, std::string_view shape, int64_t operand);

// A collective for XLA's own backend.
struct StockCollective {
  std::string opcode;
  std::string shape;
  std::vector<int64_t> operands;
  std::vector<int64_t> callees;
  std::vector<int64_t> dimensions;
  IdGroups groups;
  std::vector<std::pair<int64_t, int64_t>> pairs;
  std::optional<int64_t> channel;
  bool use_global_device_ids = false;
};
// Metadata, control predecessors and foreign attributes are those of `original`, an HloInstructionProto.
NewInstruction AsStockCollective(const NewName& name, const StockCollective& collective, std::string_view original,
                                 const Attributes& own);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_REWRITE_NEW_INSTRUCTIONS_H_
