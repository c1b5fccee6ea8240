#include "xla_patch/hlo/proto/async_pairs.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

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

}  // namespace xla_shmem::hlo
