#include "xla_patch/hlo/proto/collective_reduction.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "xla_patch/assigner/reduction_matcher.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// The operands are returned as ids. An instruction that cannot be read is treated as no scalar, so it matches nothing.
ReductionNode DecodeNode(const Instruction& instruction, std::vector<int64_t>* operand_ids) {
  ReductionNode node;
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kOpcode) {
      node.opcode = std::string(field.bytes);
    } else if (field.number == InstructionField::kParameterNumber) {
      node.parameter_number = field.AsInt();
    }
  }
  const Result<Shape> shape = ParseShape(instruction.shape);
  node.is_scalar = shape.ok() && shape->dimensions.empty() && DecodeOperands(instruction, operand_ids);
  node.element_type = shape.ok() ? shape->element_type : ElementType::kInvalid;
  return node;
}

}  // namespace

std::optional<ReductionKind> MatchReduction(const Module& module, int64_t computation_id) {
  const auto found = module.computation_of_id.find(computation_id);
  if (found == module.computation_of_id.end()) return std::nullopt;
  const Computation& computation = module.computations[found->second];
  if (computation.last - computation.first > kMaxReductionNodes) return std::nullopt;
  const InstructionIndex index(module, computation);
  // Past the end for an id that is none.
  const auto position = [&](int64_t id) {
    const Instruction* instruction = index.Find(id);
    return instruction == nullptr ? kMaxReductionNodes
                                  : static_cast<size_t>(instruction - &module.instructions[computation.first]);
  };
  std::vector<ReductionNode> nodes;
  for (size_t i = computation.first; i < computation.last; ++i) {
    std::vector<int64_t> operand_ids;
    nodes.push_back(DecodeNode(module.instructions[i], &operand_ids));
    std::transform(operand_ids.begin(), operand_ids.end(), std::back_inserter(nodes.back().operands), position);
  }
  return xla_shmem::MatchReduction(nodes, position(computation.root_id));
}

}  // namespace xla_shmem::hlo
