#include "xla_patch/hlo/rewrite/all_to_all_folding.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// One range of a slice.
struct Range {
  int64_t start = 0;
  int64_t limit = 0;
  int64_t stride = 0;
};

// The fields of the instructions around an all-to-all that matter here.
struct Details {
  std::string_view opcode;
  Shape shape;
  std::vector<int64_t> operands;
  std::vector<int64_t> dimensions;
  std::vector<int64_t> callees;
  std::vector<Range> slice;
  int64_t tuple_index = 0;
  bool has_control_predecessors = false;
};

Range ReadRange(std::string_view proto) {
  Range range;
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == SliceDimensionsField::kStart) {
      range.start = field.AsInt();
    } else if (field.number == SliceDimensionsField::kLimit) {
      range.limit = field.AsInt();
    } else if (field.number == SliceDimensionsField::kStride) {
      range.stride = field.AsInt();
    }
  }
  return range;
}

bool ReadDetails(const Instruction& instruction, Details* details) {
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    switch (field.number) {
      case InstructionField::kOpcode:
        details->opcode = field.bytes;
        break;
      case InstructionField::kTupleIndex:
        details->tuple_index = field.AsInt();
        break;
      case InstructionField::kDimensions:
        if (!AppendRepeatedInts(field, &details->dimensions)) return false;
        break;
      case InstructionField::kSliceDimensions:
        details->slice.push_back(ReadRange(field.bytes));
        break;
      case InstructionField::kControlPredecessorIds:
        details->has_control_predecessors = true;
        break;
      case InstructionField::kCalledComputationIds:
        if (!AppendRepeatedInts(field, &details->callees)) return false;
        break;
      default:
        break;
    }
  }
  Result<Shape> shape = ParseShape(instruction.shape);
  if (!shape.ok()) return false;
  details->shape = *std::move(shape);
  return DecodeOperands(instruction, &details->operands);
}

// Part of an array: [start, limit) of one dimension, all of the others.
struct Part {
  int64_t array = 0;  // id
  int64_t dimension = -1;
  int64_t start = 0;
};

// A slice, or a fusion that does nothing else, as a part of its operand; of `parts` equal ones that lie in memory one
// after the other.
bool ReadPart(const Module& module, const Details& details, const Shape& whole, int64_t parts, Part* part) {
  Details slice = details;
  if (details.opcode == "fusion") {
    if (details.callees.size() != 1) return false;
    const auto found = module.computation_of_id.find(details.callees[0]);
    if (found == module.computation_of_id.end()) return false;
    const Computation& fused = module.computations[found->second];
    if (fused.last - fused.first != 2 || OpcodeOf(module.instructions[fused.first]) != "parameter" ||
        module.instructions[fused.first + 1].id != fused.root_id) {
      return false;
    }
    slice = Details();
    if (!ReadDetails(module.instructions[fused.first + 1], &slice)) return false;
  }
  if (slice.opcode != "slice" || !slice.callees.empty() || details.operands.size() != 1 ||
      slice.slice.size() != whole.dimensions.size() || !SameBytesLayout(slice.shape, details.shape)) {
    return false;
  }
  part->array = details.operands[0];
  for (size_t i = 0; i < slice.slice.size(); ++i) {
    const Range& range = slice.slice[i];
    if (range.stride > 1) return false;
    if (range.start == 0 && range.limit == whole.dimensions[i]) continue;
    if (part->dimension >= 0) return false;
    part->dimension = static_cast<int64_t>(i);
    part->start = range.start;
  }
  return part->dimension >= 0 && IsMadeOfParts(whole, details.shape, part->dimension, parts);
}

// Does no work and writes no memory.
bool IsFree(std::string_view opcode) {
  return opcode == "parameter" || opcode == "constant" || opcode == "get-tuple-element" || opcode == "tuple" ||
         opcode == "bitcast";
}

bool RunsOtherComputations(std::string_view opcode) {
  return opcode == "while" || opcode == "conditional" || opcode == "call" || opcode.substr(0, 6) == "async-";
}

}  // namespace

const WholeArrayFinder::Relations& WholeArrayFinder::RelationsOf(size_t computation) {
  const auto [found, is_new] = relations_.try_emplace(computation);
  Relations& relations = found->second;
  if (!is_new) return relations;
  const Computation& here = module_.computations[computation];
  relations.sequence = Schedule(module_.schedule).Sequence(here.id);
  for (size_t turn = 0; turn < relations.sequence.size(); ++turn) relations.turn[relations.sequence[turn]] = turn;
  relations.is_sound = relations.turn.size() == here.last - here.first;
  for (size_t i = here.first; i < here.last; ++i) {
    const Instruction& instruction = module_.instructions[i];
    std::vector<int64_t> operands;
    std::vector<int64_t> controlling;
    relations.is_sound = relations.is_sound && DecodeOperands(instruction, &operands) &&
                         relations.turn.count(instruction.id) > 0 && relations.index.emplace(instruction.id, i).second;
    FieldReader reader(instruction.body);
    for (Field field; reader.Next(&field);) {
      if (field.number == InstructionField::kControlPredecessorIds && !AppendRepeatedInts(field, &controlling)) {
        relations.is_sound = false;
      }
    }
    for (const int64_t operand : operands) relations.users[operand].push_back(i);
    relations.controlling.insert(controlling.begin(), controlling.end());
  }
  return relations;
}

std::optional<size_t> WholeArrayFinder::OnlyUser(const Relations& relations, const Computation& computation,
                                                 size_t instruction) const {
  const int64_t id = module_.instructions[instruction].id;
  const auto users = relations.users.find(id);
  if (users == relations.users.end() || users->second.size() != 1 || id == computation.root_id ||
      relations.controlling.count(id) > 0) {
    return std::nullopt;
  }
  return users->second[0];
}

bool WholeArrayFinder::FindOperand(const Relations& relations, const Collective& collective, WholeArrays* whole) const {
  const Computation& computation = module_.computations[collective.computation];
  const std::vector<int64_t>& operands = collective.fields.operand_ids;
  Part first;
  Shape array_shape;
  for (size_t k = 0; k < operands.size(); ++k) {
    const auto found = relations.index.find(operands[k]);
    Details details;
    if (found == relations.index.end() || !ReadDetails(module_.instructions[found->second], &details) ||
        details.has_control_predecessors || details.operands.size() != 1 ||
        OnlyUser(relations, computation, found->second) != collective.instruction) {
      return false;
    }
    if (k == 0) {
      const auto array = relations.index.find(details.operands[0]);
      if (array == relations.index.end()) return false;
      Result<Shape> shape = ParseShape(module_.instructions[array->second].shape);
      if (!shape.ok()) return false;
      array_shape = *std::move(shape);
    }
    Part part;
    if (!ReadPart(module_, details, array_shape, static_cast<int64_t>(operands.size()), &part)) return false;
    if (k == 0) first = part;
    if (part.array != first.array || part.dimension != first.dimension ||
        part.start != static_cast<int64_t>(k) * details.shape.dimensions[part.dimension]) {
      return false;
    }
    whole->removed.push_back(found->second);
    for (const int64_t callee : details.callees) {
      const size_t fused = module_.computation_of_id.at(callee);
      if (module_.computations[fused].has_many_callers) return false;
      whole->removed_computations.push_back(fused);
    }
  }
  whole->operands = {first.array};
  return true;
}

// What the collective itself waits for need not be looked at. The call keeps its control predecessors, which run before
// the concatenation as they ran before the collective, and none of them is removed (OnlyUser).
bool WholeArrayFinder::FindResult(const Relations& relations, const Collective& collective, WholeArrays* whole) const {
  const Computation& computation = module_.computations[collective.computation];
  const int64_t id = module_.instructions[collective.instruction].id;
  const size_t parts = collective.result.elements.size();
  const auto users = relations.users.find(id);
  if (users == relations.users.end() || users->second.size() != parts || id == computation.root_id ||
      relations.controlling.count(id) > 0) {
    return false;
  }
  std::vector<int64_t> elements(parts, -1);
  std::optional<size_t> concatenate;
  for (const size_t user : users->second) {
    Details details;
    if (!ReadDetails(module_.instructions[user], &details) || details.opcode != "get-tuple-element" ||
        details.has_control_predecessors || static_cast<uint64_t>(details.tuple_index) >= parts) {
      return false;
    }
    const std::optional<size_t> next = OnlyUser(relations, computation, user);
    if (!next.has_value() || (concatenate.has_value() && concatenate != next)) return false;
    concatenate = next;
    elements[details.tuple_index] = module_.instructions[user].id;
    whole->removed.push_back(user);
  }
  Details joined;
  if (!concatenate.has_value() || !ReadDetails(module_.instructions[*concatenate], &joined) ||
      joined.opcode != "concatenate" || joined.has_control_predecessors || joined.dimensions.size() != 1 ||
      joined.operands != elements ||
      !IsMadeOfParts(joined.shape, collective.result.elements[0], joined.dimensions[0], static_cast<int64_t>(parts))) {
    return false;
  }
  whole->removed.push_back(collective.instruction);
  whole->place = *concatenate;
  return true;
}

bool WholeArrayFinder::IsSafe(const Relations& relations, const Collective& collective,
                              const WholeArrays& whole) const {
  std::vector<int64_t> sizes;  // of what is read later than before
  for (const int64_t operand : whole.operands) {
    const auto found = relations.index.find(operand);
    if (found == relations.index.end()) return false;
    const Result<Shape> shape = ParseShape(module_.instructions[found->second].shape);
    if (!shape.ok()) return false;
    sizes.push_back(ShapeBytes(*shape));
  }
  size_t begin = relations.turn.at(module_.instructions[collective.instruction].id);
  for (const size_t removed : whole.removed) {
    begin = std::min(begin, relations.turn.at(module_.instructions[removed].id));
  }
  const size_t end = relations.turn.at(module_.instructions[whole.place].id);
  for (size_t turn = begin; turn < end; ++turn) {
    const size_t index = relations.index.at(relations.sequence[turn]);
    if (std::find(whole.removed.begin(), whole.removed.end(), index) != whole.removed.end()) continue;
    const Instruction& instruction = module_.instructions[index];
    const std::string_view opcode = OpcodeOf(instruction);
    if (IsFree(opcode)) continue;
    const Result<Shape> shape = ParseShape(instruction.shape);
    if (RunsOtherComputations(opcode) || !shape.ok()) return false;
    // All values that share a buffer because they must are of one size.
    for (const Shape* leaf : shape->Leaves()) {
      if (leaf->IsTuple() || std::find(sizes.begin(), sizes.end(), ShapeBytes(*leaf)) != sizes.end()) return false;
    }
  }
  return true;
}

std::optional<WholeArrays> WholeArrayFinder::Find(const Collective& collective) {
  if (collective.spec.op != CollectiveOp::kAllToAll || collective.form != CollectiveForm::kSync ||
      !collective.result.IsTuple() || collective.result.elements.size() != collective.fields.operand_ids.size() ||
      collective.fields.operand_ids.size() < 2) {
    return std::nullopt;
  }
  const Relations& relations = RelationsOf(collective.computation);
  if (!relations.is_sound) return std::nullopt;
  WholeArrays operand;
  operand.place = collective.instruction;
  const bool has_operand = FindOperand(relations, collective, &operand);
  if (!has_operand) operand = WholeArrays{collective.fields.operand_ids, collective.instruction, {}, {}};
  WholeArrays both = operand;
  if (FindResult(relations, collective, &both) && IsSafe(relations, collective, both)) return both;
  if (has_operand && IsSafe(relations, collective, operand)) return operand;
  return std::nullopt;
}

}  // namespace xla_shmem::hlo
