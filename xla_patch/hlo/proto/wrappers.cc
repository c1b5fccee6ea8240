#include "xla_patch/hlo/proto/wrappers.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/assigner/vetoes.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

constexpr const char* kPartOfFusion = "it is part of a fusion";

// The parameter's number, or -1 for another instruction.
int64_t ParameterNumber(const Instruction& instruction) {
  bool is_parameter = false;
  int64_t number = 0;
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kOpcode) {
      is_parameter = field.bytes == "parameter";
    } else if (field.number == InstructionField::kParameterNumber) {
      number = field.AsInt();
    }
  }
  return is_parameter ? number : -1;
}

// Whether the computation is instruction(parameter 0, parameter 1, ...) and no more.
bool IsPureWrapper(const Module& module, const Computation& computation, const Instruction& instruction,
                   const std::vector<int64_t>& operands) {
  if (computation.last - computation.first != operands.size() + 1 || computation.root_id != instruction.id) {
    return false;
  }
  const InstructionIndex index(module, computation);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Instruction* operand = index.Find(operands[i]);
    if (operand == nullptr || ParameterNumber(*operand) != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// "add, negate"; parameters are not listed.
std::string OpcodesBeside(const Module& module, const Computation& computation, size_t op) {
  std::set<std::string_view> opcodes;
  for (size_t i = computation.first; i < computation.last; ++i) {
    if (i != op) opcodes.insert(OpcodeOf(module.instructions[i]));
  }
  opcodes.erase("parameter");
  std::string list;
  for (const std::string_view opcode : opcodes) list.append(list.empty() ? "" : ", ").append(opcode);
  return list;
}

// An async-start's shape is ((operands), result, contexts...); its aliasing may share whole results with the operands
// of the same number, or one result with operand `only`. Other aliasing is not supported.
bool ReadInPlace(const std::vector<Aliasing>& aliasing, bool is_tuple, int64_t only, std::vector<bool>* in_place) {
  for (const Aliasing& one : aliasing) {
    const std::vector<int64_t>& index = one.output_index;
    if (index.size() != (is_tuple ? 2 : 1) || index[0] != 1 || !one.operand_index.empty() || one.operand < 0 ||
        one.operand >= static_cast<int64_t>(in_place->size()) || one.operand != (is_tuple ? index[1] : only)) {
      return false;
    }
    (*in_place)[one.operand] = true;
  }
  return true;
}

// What the collective has of the instruction that stands for it where it is issued.
void TakePlace(CollectiveFields* place, Collective* collective) {
  collective->fields.name = place->name;
  collective->fields.source_file = place->source_file;
  collective->fields.source_line = place->source_line;
  collective->fields.stack_frame = place->stack_frame;
  collective->fields.operand_ids = std::move(place->operand_ids);
}

}  // namespace

void FindFusion(const Module& module, Collective* collective) {
  const Computation& fused = module.computations[collective->op_computation];
  const Instruction& op = module.instructions[collective->op];
  const Computation& around = module.computations[fused.caller];
  const bool is_called_by_fusion = collective->op_computation != module.entry &&
                                   module.instructions[fused.caller_instruction].opcode.op_class == OpClass::kFusion &&
                                   !around.is_fusion;
  if (!is_called_by_fusion || op.opcode.op_class != OpClass::kCollective) {
    // XLA runs the fusion as a whole, and a pair's halves may be in different ones.
    collective->unsupported_form = kPartOfFusion;
    return;
  }
  std::vector<int64_t> operands;
  if (const std::string others = OpcodesBeside(module, fused, collective->op); !others.empty()) {
    collective->unsupported_form = std::string(kPartOfFusion) + ", with " + others;
  } else if (!DecodeOperands(op, &operands) || !IsPureWrapper(module, fused, op, operands)) {
    collective->unsupported_form = std::string(kPartOfFusion) + " that does not pass its operands on in their order";
  } else {
    collective->fusion = static_cast<int64_t>(fused.caller_instruction);
    collective->computation = fused.caller;
    collective->instruction = fused.caller_instruction;
  }
  if (collective->fusion >= 0 && around.async_start >= 0) {
    collective->form = CollectiveForm::kWrapped;
    collective->computation = around.async_computation;
    collective->instruction = static_cast<size_t>(around.async_start);
  }
}

Status Unfuse(const Module& module, Collective* collective) {
  const Instruction& fusion = module.instructions[collective->fusion];
  Result<CollectiveFields> decoded = DecodeCollective(module, fusion.body);
  if (!decoded.ok()) return decoded.status();
  const Result<Shape> shape = ParseShape(fusion.shape);
  if (!shape.ok()) return shape.status();
  if (decoded->has_two_shapes) {
    collective->unsupported_form = "its shape is given twice";
  } else if (!decoded->aliasing.empty()) {
    collective->unsupported_form = "its fusion shares buffers in a way that is not known here";
  } else if (decoded->operand_ids.size() != collective->fields.operand_ids.size() ||
             !HaveSameLeaves(*shape, collective->result)) {
    collective->unsupported_form = "its fusion differs from it in operands or shape";
  }
  TakePlace(&*decoded, collective);
  return Status();
}

Status Unwrap(const Module& module, Collective* collective) {
  Result<CollectiveFields> decoded = DecodeCollective(module, module.instructions[collective->instruction].body);
  if (!decoded.ok()) return decoded.status();
  CollectiveFields& start = *decoded;
  const bool is_fused = collective->fusion >= 0;
  const size_t inside = is_fused ? module.computations[collective->op_computation].caller : collective->op_computation;
  const Instruction& inner = module.instructions[is_fused ? collective->fusion : collective->op];
  Unsupported unsupported;
  std::vector<bool> in_place(start.operand_ids.size(), false);
  if (start.callees.size() != 1 || start.operand_ids.size() != collective->fields.operand_ids.size() ||
      !IsPureWrapper(module, module.computations[inside], inner, collective->fields.operand_ids)) {
    unsupported = kSharesAsyncComputation;
  } else if (start.has_two_shapes) {
    unsupported = "its shape is given twice";
  } else if (!ReadInPlace(start.aliasing, collective->result.IsTuple(),
                          collective->spec.op == CollectiveOp::kRaggedAllToAll ? 1 : 0, &in_place)) {
    unsupported = "its start shares buffers in a way that is not known here";
  }
  if (unsupported.has_value()) {
    collective->unsupported_form = std::move(unsupported);
    collective->done = -1;
  }
  TakePlace(&start, collective);
  collective->in_place = std::move(in_place);
  return Status();
}

}  // namespace xla_shmem::hlo
