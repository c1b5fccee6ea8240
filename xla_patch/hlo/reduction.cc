#include "xla_patch/hlo/collective_reader.h"
#include "xla_patch/hlo/wire.h"

namespace xla_shmem::hlo {
namespace {

// What matching asks of an instruction of a reduction computation.
struct Node {
  std::string_view opcode;
  int64_t parameter_number = 0;
  int32_t element_type = 0;
  std::vector<int64_t> operand_ids;
};

bool DecodeNode(const Instruction* instruction, Node* node) {
  if (instruction == nullptr) {
    return false;
  }
  *node = Node();
  FieldReader reader(instruction->body);
  for (Field field; reader.Next(&field);) {
    if (field.number == 2) {
      node->opcode = field.bytes;
    } else if (field.number == 9) {
      node->parameter_number = field.AsInt();
    }
  }
  Shape shape;
  std::string ignored;
  if (!ParseShape(instruction->shape, &shape, &ignored) || !shape.dimensions.empty()) {
    return false;  // reductions of arrays are scalar
  }
  node->element_type = shape.element_type;
  return DecodeOperands(*instruction, &node->operand_ids);
}

enum class Direction { kWiden, kNarrow };

// Replaces a conversion by what it converts, if the only effect is to compute in f32 what is stored in 16 bits.
bool SkipConvert(const InstructionIndex& index, Direction direction, Node* node) {
  if (node->opcode != "convert") {
    return true;
  }
  const int32_t to = node->element_type;
  if (node->operand_ids.size() != 1 || !DecodeNode(index.Find(node->operand_ids[0]), node)) {
    return false;
  }
  const int32_t narrow = direction == Direction::kWiden ? node->element_type : to;
  const int32_t wide = direction == Direction::kWiden ? to : node->element_type;
  return wide == element_type::kF32 && (narrow == element_type::kBF16 || narrow == element_type::kF16);
}

Reduction ReductionOf(std::string_view opcode) {
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
  return opcode == "or" ? Reduction::kOr : Reduction::kNone;
}

}  // namespace

Reduction MatchReduction(const Module& module, int64_t computation_id) {
  const auto found = module.computation_of_id.find(computation_id);
  if (found == module.computation_of_id.end()) {
    return Reduction::kNone;
  }
  const Computation& computation = module.computations[found->second];
  // Two parameters, the op, and at most three conversions.
  if (computation.last - computation.first > 6) {
    return Reduction::kNone;
  }
  const InstructionIndex index(module, computation);
  Node root;
  if (!DecodeNode(index.Find(computation.root_id), &root) || !SkipConvert(index, Direction::kNarrow, &root) ||
      root.operand_ids.size() != 2) {
    return Reduction::kNone;
  }
  int64_t parameters[2];
  for (int i = 0; i < 2; ++i) {
    Node operand;
    if (!DecodeNode(index.Find(root.operand_ids[i]), &operand) || !SkipConvert(index, Direction::kWiden, &operand) ||
        operand.opcode != "parameter") {
      return Reduction::kNone;
    }
    parameters[i] = operand.parameter_number;
  }
  return parameters[0] + parameters[1] == 1 && parameters[0] * parameters[1] == 0 ? ReductionOf(root.opcode)
                                                                                  : Reduction::kNone;
}

}  // namespace xla_shmem::hlo
