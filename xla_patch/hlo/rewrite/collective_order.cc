#include "xla_patch/hlo/rewrite/collective_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/rewrite/edited_collective.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"
#include "xla_patch/hlo/rewrite/new_numbers.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem::hlo {
namespace {

// Which transport carries the collectives of an instruction or a computation, with what it calls. kOurs if both do.
enum class Collectives : uint8_t { kNone, kOfXla, kOurs };

std::vector<int64_t> Callees(const Instruction& instruction) {
  std::vector<int64_t> callees;
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kCalledComputationIds) AppendRepeatedInts(field, &callees);
  }
  return callees;
}

// A field of text, "" if there is none.
std::string_view Text(const Instruction& instruction, uint32_t number) {
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == number) return field.bytes;
  }
  return {};
}

bool IsAfter(const Instruction& instruction) { return TargetOf(instruction) == kAfterTarget; }

// These need not touch all their operands, nor write all their results.
bool IsControlFlow(const Instruction& instruction) {
  switch (instruction.opcode.op_class) {
    case OpClass::kWhile:
    case OpClass::kConditional:
      return true;
    case OpClass::kOther:
      return Text(instruction, InstructionField::kOpcode) == "call";
    case OpClass::kCollective:
    case OpClass::kCollectiveStart:
    case OpClass::kCollectiveDone:
    case OpClass::kAsyncStart:
    case OpClass::kAsyncUpdate:
    case OpClass::kAsyncDone:
    case OpClass::kFusion:
    case OpClass::kCustomCall:
      break;
  }
  return false;
}

std::vector<int64_t> Operands(const Instruction& instruction) {
  std::vector<int64_t> operands;
  if (!DecodeOperands(instruction, &operands)) operands.clear();
  return operands;
}

bool HasBytes(const Instruction& instruction) {
  const Result<Shape> shape = ParseShape(instruction.shape);
  return shape.ok() && ShapeBytes(*shape) > 0;
}

// Every array of a result is the same array of operand 0.
void AliasLeaves(const Shape& shape, std::vector<int64_t>* index, std::vector<Aliasing>* aliasing) {
  if (!shape.IsTuple()) {
    aliasing->push_back({*index, 0, *index});
    return;
  }
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    index->push_back(static_cast<int64_t>(i));
    AliasLeaves(shape.elements[i], index, aliasing);
    index->pop_back();
  }
}

class Orderer {
 public:
  Orderer(const Module& module, const DeviceAssignment& assignment)
      : module_(module), schedule_(module.schedule), numbers_(module, assignment) {
    Classify();
  }

  Result<std::string> Run() {
    for (size_t computation = 0; computation < module_.computations.size(); ++computation) {
      if (module_.computations[computation].is_reachable && of_computation_[computation] == Collectives::kOurs) {
        XLA_SHMEM_RETURN_IF_ERROR(Order(computation));
      }
    }
    return edits_.empty() ? std::string() : ApplyEdits(module_, edits_);
  }

 private:
  // What its callees contain is known: they come first.
  Collectives CollectivesOf(const Instruction& instruction) const {
    switch (instruction.opcode.op_class) {
      case OpClass::kCollective:
      case OpClass::kCollectiveStart:
        return Collectives::kOfXla;
      case OpClass::kFusion:
        return Collectives::kNone;
      case OpClass::kOther:
      case OpClass::kCollectiveDone:
      case OpClass::kAsyncStart:
      case OpClass::kAsyncUpdate:
      case OpClass::kAsyncDone:
      case OpClass::kWhile:
      case OpClass::kConditional:
      case OpClass::kCustomCall:
        break;
    }
    if (instruction.is_lowered) return Collectives::kOurs;
    Collectives all = Collectives::kNone;
    for (const int64_t callee : Callees(instruction)) {
      if (const auto found = module_.computation_of_id.find(callee); found != module_.computation_of_id.end()) {
        all = std::max(all, of_computation_[found->second]);
      }
    }
    return all;
  }

  void Classify() {
    of_.resize(module_.instructions.size(), Collectives::kNone);
    of_computation_.resize(module_.computations.size(), Collectives::kNone);
    for (size_t computation = 0; computation < module_.computations.size(); ++computation) {
      const Computation& where = module_.computations[computation];
      for (size_t i = where.first; i < where.last; ++i) {
        of_[i] = CollectivesOf(module_.instructions[i]);
        of_computation_[computation] = std::max(of_computation_[computation], of_[i]);
      }
    }
  }

  size_t IndexOf(const Instruction& instruction) const { return &instruction - module_.instructions.data(); }

  Status Order(size_t computation) {
    const Computation& where = module_.computations[computation];
    if (!IsComplete(schedule_, module_, where)) {
      return Status::Error("computation " + std::string(where.name) + " has no complete schedule");
    }
    const InstructionIndex index(module_, where);
    const Instruction* before = nullptr;
    for (size_t i = where.first; i < where.last; ++i) {
      const Instruction& instruction = module_.instructions[i];
      // Where there is nothing to send XLA:CPU has no data to order it by, and nobody waits.
      if (of_[i] == Collectives::kNone || (!IsControlFlow(instruction) && !HasBytes(instruction))) continue;
      const bool ordered_by_xla =
          before == nullptr || (of_[i] == Collectives::kOfXla && of_[IndexOf(*before)] == Collectives::kOfXla);
      if (!ordered_by_xla && !Follows(index, instruction, *before)) {
        XLA_SHMEM_RETURN_IF_ERROR(PutAfter(computation, index, instruction, *before));
      }
      before = &instruction;
    }
    return Status();
  }

  // Whether XLA:CPU runs `second` after `first` as it is. Where either is control flow only an `after` call counts.
  bool Follows(const InstructionIndex& index, const Instruction& second, const Instruction& first) const {
    std::vector<const Instruction*> open = {&second};
    std::unordered_set<int64_t> seen;
    while (!open.empty()) {
      const Instruction& instruction = *open.back();
      open.pop_back();
      const bool orders = IsAfter(instruction) || (!IsControlFlow(instruction) && !IsControlFlow(first));
      for (const int64_t id : Operands(instruction)) {
        if (id == first.id && orders) return true;
        const Instruction* const operand = index.Find(id);
        if (operand == nullptr || IndexOf(*operand) <= IndexOf(first) || !seen.insert(id).second) continue;
        if (IsControlFlow(second) ? IsAfter(*operand) : !IsControlFlow(*operand)) open.push_back(operand);
      }
    }
    return false;
  }

  Status PutAfter(size_t computation, const InstructionIndex& index, const Instruction& second,
                  const Instruction& first) {
    std::vector<int64_t> operands = Operands(second);
    InstructionEdit edit{computation, IndexOf(second), {}, {}};
    for (int64_t& id : operands) {
      const Instruction* const operand = index.Find(id);
      if (operand == nullptr || !HasBytes(*operand)) continue;
      NewInstruction after = After(*operand, first, second.id);
      id = after.id;
      edit.before.push_back(std::move(after));
      // A call need not touch each of its operands. A conditional's first one chooses the branch.
      if (second.opcode.op_class != OpClass::kOther) break;
    }
    if (edit.before.empty() || !HasBytes(first)) {
      return Status::Error("no data can put " + std::string(Text(second, InstructionField::kName)) + " after " +
                           std::string(Text(first, InstructionField::kName)));
    }
    InstructionChange change;
    change.operands = std::move(operands);
    edit.body = ChangeInstruction(second.body, change);
    edits_.push_back(std::move(edit));
    return Status();
  }

  NewInstruction After(const Instruction& operand, const Instruction& first, int64_t neighbour) {
    std::vector<int64_t> position;
    std::vector<Aliasing> aliasing;
    if (const Result<Shape> shape = ParseShape(operand.shape); shape.ok()) AliasLeaves(*shape, &position, &aliasing);
    return NewCall({kAfterTarget, "xla_shmem_after", "{}", operand.shape, {operand.id, first.id}, std::move(aliasing)},
                   numbers_.Id(neighbour));
  }

  const Module& module_;
  const Schedule schedule_;
  NewNumbers numbers_;
  std::vector<Collectives> of_;              // by instruction
  std::vector<Collectives> of_computation_;  // by computation
  std::vector<InstructionEdit> edits_;       // in module order
};

// The module with the instructions of each computation in the order of the schedule. An operand of an `after` call may
// stand behind it otherwise, which XLA refuses. Empty if they are in that order.
std::string InScheduledOrder(const Module& module) {
  const Schedule schedule(module.schedule);
  std::string out;
  bool changed = false;
  size_t next = 0;
  FieldReader reader(module.bytes);
  for (Field field; reader.Next(&field);) {
    if (field.number != ModuleField::kComputations) {
      out.append(field.whole);
      continue;
    }
    const Computation& computation = module.computations[next++];
    const InstructionIndex index(module, computation);
    std::vector<const Instruction*> sequence;
    for (const int64_t id : schedule.Sequence(computation.id)) {
      if (const Instruction* instruction = index.Find(id); instruction != nullptr) sequence.push_back(instruction);
    }
    const bool is_ordered = std::is_sorted(sequence.begin(), sequence.end());
    if (is_ordered || sequence.size() != computation.last - computation.first) {
      out.append(field.whole);
      continue;
    }
    std::string body;
    FieldReader fields(computation.body);
    for (Field inner; fields.Next(&inner);) {
      if (inner.number != ComputationField::kInstructions) body.append(inner.whole);
    }
    for (const Instruction* instruction : sequence) body.append(instruction->whole);
    WriteBytesField(ModuleField::kComputations, body, &out);
    changed = true;
  }
  return changed ? out : std::string();
}

}  // namespace

Result<std::string> OrderCollectives(const Module& module, const DeviceAssignment& assignment) {
  const auto is_ours = [](const Instruction& instruction) { return instruction.is_lowered; };
  if (std::none_of(module.instructions.begin(), module.instructions.end(), is_ours)) return std::string();
  const std::string sorted = InScheduledOrder(module);
  if (sorted.empty()) return Orderer(module, assignment).Run();
  const Result<Module> reread = ReadModule(sorted);
  if (!reread.ok()) return reread.status();
  return Orderer(*reread, assignment).Run();
}

}  // namespace xla_shmem::hlo
