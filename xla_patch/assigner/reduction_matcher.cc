#include "xla_patch/assigner/reduction_matcher.h"

namespace xla_shmem {
namespace {

enum class Direction { kWiden, kNarrow };

// Null for an index that is none, and for what is not scalar, as reductions of arrays are.
const ReductionNode* Scalar(const std::vector<ReductionNode>& nodes, size_t index) {
  return index < nodes.size() && nodes[index].is_scalar ? &nodes[index] : nullptr;
}

// What a conversion converts, if its only effect is to compute in f32 what is stored in 16 bits; null if it has
// another.
const ReductionNode* SkipConvert(const std::vector<ReductionNode>& nodes, Direction direction,
                                 const ReductionNode* node) {
  if (node == nullptr || node->opcode != "convert") {
    return node;
  }
  const ReductionNode* from = node->operands.size() == 1 ? Scalar(nodes, node->operands[0]) : nullptr;
  if (from == nullptr) {
    return nullptr;
  }
  const int32_t narrow = direction == Direction::kWiden ? from->element_type : node->element_type;
  const int32_t wide = direction == Direction::kWiden ? node->element_type : from->element_type;
  const bool is_detour = wide == element_type::kF32 && (narrow == element_type::kBF16 || narrow == element_type::kF16);
  return is_detour ? from : nullptr;
}

Reduction ReductionOf(const std::string& opcode) {
  if (opcode == "add") {
    return Reduction::kSum;
  }
  if (opcode == "multiply") {
    return Reduction::kProd;
  }
  if (opcode == "minimum") {
    return Reduction::kMin;
  }
  if (opcode == "maximum") {
    return Reduction::kMax;
  }
  if (opcode == "and") {
    return Reduction::kAnd;
  }
  if (opcode == "or") {
    return Reduction::kOr;
  }
  return opcode == "xor" ? Reduction::kXor : Reduction::kNone;
}

}  // namespace

Reduction MatchReduction(const std::vector<ReductionNode>& nodes, size_t root_index) {
  if (nodes.size() > kMaxReductionNodes) {
    return Reduction::kNone;
  }
  const ReductionNode* root = SkipConvert(nodes, Direction::kNarrow, Scalar(nodes, root_index));
  if (root == nullptr || root->operands.size() != 2) {
    return Reduction::kNone;
  }
  int64_t parameters[2];
  for (int i = 0; i < 2; ++i) {
    const ReductionNode* operand = SkipConvert(nodes, Direction::kWiden, Scalar(nodes, root->operands[i]));
    if (operand == nullptr || operand->opcode != "parameter") {
      return Reduction::kNone;
    }
    parameters[i] = operand->parameter_number;
  }
  return parameters[0] + parameters[1] == 1 && parameters[0] * parameters[1] == 0 ? ReductionOf(root->opcode)
                                                                                  : Reduction::kNone;
}

}  // namespace xla_shmem
