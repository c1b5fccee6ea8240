#include "xla_patch/assigner/reduction_matcher.h"

namespace xla_shmem {
namespace {

enum class Direction { kWiden, kNarrow };

// Null for an index that is none, and for what is not scalar, as reductions of arrays are.
const ReductionNode* Scalar(const std::vector<ReductionNode>& nodes, size_t index) {
  return index < nodes.size() && nodes[index].is_scalar ? &nodes[index] : nullptr;
}

// The operand of a conversion, if its only effect is to compute in f32 a value that is stored in 16 bits; null for any
// other conversion.
const ReductionNode* SkipConvert(const std::vector<ReductionNode>& nodes, Direction direction,
                                 const ReductionNode* node) {
  if (node == nullptr || node->opcode != "convert") return node;
  const ReductionNode* from = node->operands.size() == 1 ? Scalar(nodes, node->operands[0]) : nullptr;
  if (from == nullptr) return nullptr;
  const ElementType narrow = direction == Direction::kWiden ? from->element_type : node->element_type;
  const ElementType wide = direction == Direction::kWiden ? node->element_type : from->element_type;
  const bool is_detour = wide == ElementType::kF32 && (narrow == ElementType::kBf16 || narrow == ElementType::kF16);
  return is_detour ? from : nullptr;
}

std::optional<ReductionKind> ReductionOf(const std::string& opcode) {
  if (opcode == "add") return ReductionKind::kSum;
  if (opcode == "multiply") return ReductionKind::kProd;
  if (opcode == "minimum") return ReductionKind::kMin;
  if (opcode == "maximum") return ReductionKind::kMax;
  if (opcode == "and") return ReductionKind::kAnd;
  if (opcode == "or") return ReductionKind::kOr;
  return opcode == "xor" ? std::optional(ReductionKind::kXor) : std::nullopt;
}

}  // namespace

std::optional<ReductionKind> MatchReduction(const std::vector<ReductionNode>& nodes, size_t root_index) {
  if (nodes.size() > kMaxReductionNodes) return std::nullopt;
  const ReductionNode* root = SkipConvert(nodes, Direction::kNarrow, Scalar(nodes, root_index));
  if (root == nullptr || root->operands.size() != 2) return std::nullopt;
  int64_t parameters[2];
  for (int i = 0; i < 2; ++i) {
    const ReductionNode* operand = SkipConvert(nodes, Direction::kWiden, Scalar(nodes, root->operands[i]));
    if (operand == nullptr || operand->opcode != "parameter") return std::nullopt;
    parameters[i] = operand->parameter_number;
  }
  return parameters[0] + parameters[1] == 1 && parameters[0] * parameters[1] == 0 ? ReductionOf(root->opcode)
                                                                                  : std::nullopt;
}

}  // namespace xla_shmem
