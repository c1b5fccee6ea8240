#include "xla_patch/hlo/proto/async_pairs.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "xla_patch/assigner/vetoes.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// The instructions that use a start.
struct StartUsers {
  int64_t done = -1;
  int32_t dones = 0;
  int32_t others = 0;
};

bool IsDoneOf(const Opcode& done, const Opcode& start) {
  if (start.op_class == OpClass::kAsyncStart) return done.op_class == OpClass::kAsyncDone;
  return done.op_class == OpClass::kCollectiveDone && done.collective == start.collective;
}

std::string_view OpcodeOf(const Instruction& instruction) {
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kOpcode) return field.bytes;
  }
  return "";
}

template <size_t kCount>
bool IsOneOf(std::string_view opcode, const std::string_view (&names)[kCount]) {
  return std::find(std::begin(names), std::end(names), opcode) != std::end(names);
}

// XLA:GPU gives these no thunk, so it calls a pair with nothing else in between not overlapped
// (GpuConvertAsyncCollectivesToSync).
bool TakesNoTime(std::string_view opcode) {
  return IsOneOf(opcode, {"parameter", "constant", "bitcast", "get-tuple-element"});
}

bool IsScalar(const Instruction& instruction) {
  const Result<Shape> shape = ParseShape(instruction.shape);
  return shape.ok() && !shape->IsTuple() && shape->dimensions.empty();
}

// Whether everything in a fusion computes a number from numbers.
bool IsOfScalars(const Module& module, const Instruction& fusion) {
  std::vector<int64_t> called;
  FieldReader reader(fusion.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kCalledComputationIds && !AppendRepeatedInts(field, &called)) return false;
  }
  if (called.size() != 1) return false;
  const auto found = module.computation_of_id.find(called[0]);
  if (found == module.computation_of_id.end()) return false;
  const Computation& computation = module.computations[found->second];
  return std::all_of(module.instructions.begin() + static_cast<std::ptrdiff_t>(computation.first),
                     module.instructions.begin() + static_cast<std::ptrdiff_t>(computation.last), IsScalar);
}

// A number computed from numbers, such as a loop's counter: nothing that a transfer could hide behind.
bool IsScalarWork(const Module& module, const InstructionIndex& index, const Instruction& instruction,
                  std::string_view opcode) {
  if (!IsScalar(instruction)) return false;
  if (instruction.opcode.op_class == OpClass::kFusion) return IsOfScalars(module, instruction);
  if (!IsOneOf(opcode, {"add", "subtract", "multiply", "compare", "select", "convert", "copy", "and", "or", "not"})) {
    return false;
  }
  std::vector<int64_t> operands;
  if (!DecodeOperands(instruction, &operands)) return false;
  return std::all_of(operands.begin(), operands.end(), [&](int64_t id) {
    const Instruction* const operand = index.Find(id);
    return operand != nullptr && IsScalar(*operand);
  });
}

// The schedule of one computation.
class Sequence {
 public:
  explicit Sequence(std::vector<int64_t> ids) : ids_(std::move(ids)) {
    for (size_t i = 0; i < ids_.size(); ++i) position_[ids_[i]] = i;
  }

  // Whether an instruction between them takes time that a transfer could overlap with. True too if the schedule does
  // not list the start.
  bool HasWorkBetween(const Module& module, const InstructionIndex& index, int64_t start_id, int64_t done_id) const {
    const auto start = position_.find(start_id);
    if (start == position_.end()) return true;
    for (size_t i = start->second + 1; i < ids_.size(); ++i) {
      if (ids_[i] == done_id) return false;
      const Instruction* instruction = index.Find(ids_[i]);
      if (instruction == nullptr) return true;
      const std::string_view opcode = OpcodeOf(*instruction);
      if (!TakesNoTime(opcode) && !IsScalarWork(module, index, *instruction, opcode)) return true;
    }
    return true;
  }

 private:
  std::vector<int64_t> ids_;
  std::unordered_map<int64_t, size_t> position_;
};

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

// Whether the async computation is op(parameter 0, parameter 1, ...) and no more.
bool IsPureWrapper(const Module& module, const Collective& collective) {
  const Computation& computation = module.computations[collective.op_computation];
  const std::vector<int64_t>& operands = collective.fields.operand_ids;
  if (computation.last - computation.first != operands.size() + 1 ||
      computation.root_id != module.instructions[collective.op].id) {
    return false;
  }
  const InstructionIndex index(module, computation);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Instruction* operand = index.Find(operands[i]);
    if (operand == nullptr || ParameterNumber(*operand) != static_cast<int64_t>(i)) return false;
  }
  return true;
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

}  // namespace

void LinkDones(const Module& module, const Computation& computation, const InstructionIndex& index,
               const Schedule& schedule, const std::vector<Collective*>& collectives) {
  std::unordered_map<size_t, StartUsers> users;
  for (const Collective* collective : collectives) users[collective->instruction];
  std::vector<int64_t> operands;
  for (size_t i = computation.first; i < computation.last; ++i) {
    if (!DecodeOperands(module.instructions[i], &operands)) continue;
    for (const int64_t id : operands) {
      const Instruction* operand = index.Find(id);
      if (operand == nullptr) continue;
      const auto start = users.find(operand - module.instructions.data());
      if (start == users.end()) continue;
      if (IsDoneOf(module.instructions[i].opcode, operand->opcode) && operands.size() == 1) {
        start->second.done = static_cast<int64_t>(i);
        ++start->second.dones;
      } else {
        ++start->second.others;
      }
    }
  }
  const Sequence sequence(schedule.Sequence(computation.id));
  for (Collective* collective : collectives) {
    const StartUsers& start = users[collective->instruction];
    const Instruction& instruction = module.instructions[collective->instruction];
    if (start.dones != 1 || start.others != 0 || computation.root_id == instruction.id) {
      collective->unsupported_form = "its start is not used by exactly one done in the same computation";
      continue;
    }
    collective->done = start.done;
    collective->has_work_between =
        sequence.HasWorkBetween(module, index, instruction.id, module.instructions[start.done].id);
  }
}

Status Unwrap(const Module& module, Collective* collective) {
  Result<CollectiveFields> decoded = DecodeCollective(module, module.instructions[collective->instruction].body);
  if (!decoded.ok()) return decoded.status();
  CollectiveFields& start = *decoded;
  Unsupported unsupported;
  std::vector<bool> in_place(start.operand_ids.size(), false);
  if (start.callees.size() != 1 || start.operand_ids.size() != collective->fields.operand_ids.size() ||
      !IsPureWrapper(module, *collective)) {
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
  collective->fields.name = start.name;
  collective->fields.source_file = start.source_file;
  collective->fields.source_line = start.source_line;
  collective->fields.stack_frame = start.stack_frame;
  collective->in_place = std::move(in_place);
  collective->fields.operand_ids = std::move(start.operand_ids);
  return Status();
}

}  // namespace xla_shmem::hlo
