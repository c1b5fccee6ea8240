#include "xla_patch/hlo/proto/sources.h"

#include <cstddef>
#include <string_view>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

enum class Kind : uint8_t { kParameter, kTuple, kElement, kOther };

struct Node {
  Kind kind = Kind::kOther;
  uint64_t number = 0;  // of a parameter or an element
  std::vector<size_t> operands;
};

Node Read(const Instruction& instruction) {
  Node node;
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    switch (field.number) {
      case InstructionField::kOpcode:
        if (field.bytes == "parameter") node.kind = Kind::kParameter;
        if (field.bytes == "tuple") node.kind = Kind::kTuple;
        if (field.bytes == "get-tuple-element") node.kind = Kind::kElement;
        break;
      case InstructionField::kParameterNumber:
      case InstructionField::kTupleIndex:
        node.number = field.value;
        break;
      default:
        break;
    }
  }
  return node;
}

void AddSources(const Module& module, const Computation& computation, std::vector<uint64_t>* sources) {
  const InstructionIndex index(module, computation);
  std::vector<Node> nodes(computation.last - computation.first);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Instruction& instruction = module.instructions[computation.first + i];
    Node& node = nodes[i];
    node = Read(instruction);
    uint64_t& own = (*sources)[computation.first + i];
    if (node.kind == Kind::kParameter) own = uint64_t{1} << node.number % 64;
    DecodeOperands(instruction, &ids);
    for (const int64_t id : ids) {
      const Instruction* const operand = index.Find(id);
      if (operand == nullptr) continue;
      const auto place = static_cast<size_t>(operand - module.instructions.data());
      node.operands.push_back(place - computation.first);
      own |= (*sources)[place];
    }
    if (node.kind != Kind::kElement || node.operands.size() != 1) continue;
    const Node& whole = nodes[node.operands[0]];
    if (whole.kind == Kind::kParameter) own = uint64_t{1} << (whole.number + node.number) % 64;
    if (whole.kind == Kind::kTuple && node.number < whole.operands.size()) {
      own = (*sources)[computation.first + whole.operands[node.number]];
    }
  }
}

}  // namespace

std::vector<uint64_t> FindSources(const Module& module) {
  std::vector<uint64_t> sources(module.instructions.size(), 0);
  for (const Computation& computation : module.computations) AddSources(module, computation, &sources);
  return sources;
}

}  // namespace xla_shmem::hlo
