#include "xla_patch/hlo/collective_reader.h"

#include <algorithm>
#include <unordered_map>

#include "xla_patch/hlo/wire.h"

namespace xla_shmem::hlo {
namespace {

constexpr int64_t kHostMemorySpace = 5;  // Layout::kHostMemorySpace in xla/layout.h

// What is found per start in its computation: who consumes it.
struct StartUsers {
  int64_t done = -1;
  int32_t dones = 0;
  int32_t others = 0;
};

bool SameLeaves(const Shape& a, const Shape& b) {
  const std::vector<const Shape*> left = a.Leaves();
  const std::vector<const Shape*> right = b.Leaves();
  return a.IsTuple() == b.IsTuple() &&
         std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Shape* x, const Shape* y) { return SameBytesLayout(*x, *y); });
}

class Finder {
 public:
  Finder(const Module& module, const DeviceAssignment& assignment) : module_(module), assignment_(assignment) {}

  bool Run(std::vector<Collective>* collectives, std::string* error) {
    for (size_t i = 0; i < module_.computations.size(); ++i) {
      if (!module_.computations[i].is_fusion && !VisitComputation(i, error)) {
        return false;
      }
    }
    *collectives = std::move(found_);
    return true;
  }

 private:
  bool VisitComputation(size_t computation_index, std::string* error) {
    const Computation& computation = module_.computations[computation_index];
    const size_t first_found = found_.size();
    for (size_t i = computation.first; i < computation.last; ++i) {
      const Instruction& instruction = module_.instructions[i];
      const OpClass op_class = instruction.opcode.op_class;
      if (op_class != OpClass::kCollective && op_class != OpClass::kCollectiveStart && !instruction.is_lowered) {
        continue;
      }
      Collective collective;
      collective.computation = computation_index;
      collective.instruction = i;
      if (instruction.is_lowered) {
        collective.form = CollectiveForm::kLowered;
      } else if (op_class == OpClass::kCollectiveStart) {
        collective.form = CollectiveForm::kStartDone;
      } else if (computation.async_start >= 0) {
        collective.form = CollectiveForm::kWrapped;
        collective.reported = computation.async_start;
      }
      found_.push_back(std::move(collective));
    }
    if (found_.size() == first_found) {
      return true;
    }
    const InstructionIndex index(module_, computation);
    FindUsers(computation, index, first_found);
    for (size_t i = first_found; i < found_.size(); ++i) {
      if (!Describe(index, &found_[i], error)) {
        *error = "not a well-formed HloModuleProto: " + std::string(found_[i].fields.name) + ": " + *error;
        return false;
      }
    }
    return true;
  }

  // Links starts to their dones.
  void FindUsers(const Computation& computation, const InstructionIndex& index, size_t first_found) {
    std::unordered_map<size_t, StartUsers> users;
    for (size_t i = first_found; i < found_.size(); ++i) {
      if (found_[i].form == CollectiveForm::kStartDone) {
        users[found_[i].instruction];
      }
    }
    if (users.empty()) {
      return;
    }
    std::vector<int64_t> operands;
    for (size_t i = computation.first; i < computation.last; ++i) {
      if (!DecodeOperands(module_.instructions[i], &operands)) {
        continue;
      }
      for (const int64_t id : operands) {
        const Instruction* operand = index.Find(id);
        if (operand == nullptr || operand->opcode.op_class != OpClass::kCollectiveStart) {
          continue;
        }
        StartUsers& start = users[operand - module_.instructions.data()];
        const Opcode& opcode = module_.instructions[i].opcode;
        if (opcode.op_class == OpClass::kCollectiveDone && opcode.kind == operand->opcode.kind &&
            operands.size() == 1) {
          start.done = static_cast<int64_t>(i);
          ++start.dones;
        } else {
          ++start.others;
        }
      }
    }
    for (size_t i = first_found; i < found_.size(); ++i) {
      Collective& collective = found_[i];
      if (collective.form != CollectiveForm::kStartDone) {
        continue;
      }
      const StartUsers& start = users[collective.instruction];
      collective.done = start.done;
      if (start.dones != 1 || start.others != 0 ||
          computation.root_id == module_.instructions[collective.instruction].id) {
        collective.obstacle = "its start is not used by exactly one done in the same computation";
      }
    }
  }

  bool Describe(const InstructionIndex& index, Collective* collective, std::string* error) {
    const Instruction& instruction = module_.instructions[collective->instruction];
    CollectiveSpec& spec = collective->spec;
    CollectiveFields& fields = collective->fields;
    spec.op = instruction.opcode.kind;
    CollectiveFields done;
    if (!DecodeCollective(module_, instruction.body, &fields, error) ||
        (collective->done >= 0 &&
         !DecodeCollective(module_, module_.instructions[collective->done].body, &done, error)) ||
        !ReadResult(instruction, collective, error)) {
      return false;
    }
    spec.name = std::string(fields.name);
    spec.bytes = ShapeBytes(collective->result);
    for (const Shape* leaf : collective->result.Leaves()) {
      spec.element_types.push_back(leaf->element_type);
    }
    if (collective->form == CollectiveForm::kLowered) {
      return true;  // the rest stands in its attributes
    }
    ResolveParticipants(fields, &spec);
    if (fields.callees.size() == 1) {
      spec.reduction = CachedReduction(fields.callees[0]);
    }
    if (collective->obstacle.empty()) {
      collective->obstacle = done.has_two_shapes ? "its shape is given twice" : FindObstacle(index, *collective);
    }
    return true;
  }

  // A start's own shape also holds operands and context: the result is what its done returns.
  bool ReadResult(const Instruction& instruction, Collective* collective, std::string* error) {
    Shape own;
    if (!ParseShape(instruction.shape, &own, error)) {
      return false;
    }
    const bool is_all_reduce = instruction.opcode.kind == OpKind::kAllReduce;
    if (collective->done >= 0) {
      if (!ParseShape(module_.instructions[collective->done].shape, &collective->result, error)) {
        return false;
      }
      if (is_all_reduce && !SameLeaves(own, collective->result)) {
        collective->obstacle = "its start and done differ in shape";
      }
      return true;
    }
    const bool holds_operands =
        collective->form == CollectiveForm::kStartDone && !is_all_reduce && own.elements.size() >= 2;
    collective->result = holds_operands ? Shape(own.elements[1]) : std::move(own);
    return true;
  }

  void ResolveParticipants(const CollectiveFields& fields, CollectiveSpec* spec) {
    if (spec->op == OpKind::kCollectivePermute) {
      ResolvePairs(fields.pairs, fields.has_channel_id, assignment_, &spec->pairs, &spec->unresolved);
      return;
    }
    const bool can_be_global =
        spec->op == OpKind::kAllReduce || spec->op == OpKind::kAllGather || spec->op == OpKind::kReduceScatter;
    GroupMode mode = GroupMode::kCrossReplica;
    if (!GetGroupMode(fields.has_channel_id, can_be_global, fields.use_global_device_ids, &mode, &spec->unresolved)) {
      return;
    }
    if (id_budget_ < assignment_.num_devices()) {
      spec->unresolved = "replica groups: the module lists more participants than can be examined";
      return;
    }
    ResolveGroups(fields.groups, mode, assignment_, &spec->groups, &spec->unresolved);
    id_budget_ -= static_cast<int64_t>(spec->groups.devices.size());
  }

  Reduction CachedReduction(int64_t computation_id) {
    const auto [entry, is_new] = reductions_.emplace(computation_id, Reduction::kNone);
    if (is_new) {
      entry->second = MatchReduction(module_, computation_id);
    }
    return entry->second;
  }

  std::string FindObstacle(const InstructionIndex& index, const Collective& collective) const {
    const CollectiveFields& fields = collective.fields;
    if (fields.has_two_shapes) {
      return "its shape is given twice";
    }
    if (fields.has_slices) {
      return "it permutes slices in place";
    }
    if (module_.computations[collective.computation].has_many_callers) {
      return "its computation is called from more than one place, so it could run twice at once";
    }
    const std::vector<const Shape*> leaves = collective.result.Leaves();
    if (leaves.empty() || leaves.size() != fields.operand_ids.size()) {
      return std::to_string(fields.operand_ids.size()) + " operands for " + std::to_string(leaves.size()) + " results";
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      const Instruction* operand = index.Find(fields.operand_ids[i]);
      Shape shape;
      std::string error;
      if (operand == nullptr || !ParseShape(operand->shape, &shape, &error)) {
        return "operand " + std::to_string(i) + " cannot be read";
      }
      if (leaves[i]->is_dynamic || shape.is_dynamic) {
        return "it has dynamic dimensions";
      }
      if (leaves[i]->memory_space == kHostMemorySpace || shape.memory_space == kHostMemorySpace) {
        return "it works on host memory";
      }
      if (!SameBytesLayout(*leaves[i], shape)) {
        return "operand and result " + std::to_string(i) + " differ in shape or layout";
      }
    }
    return "";
  }

  const Module& module_;
  const DeviceAssignment& assignment_;
  std::vector<Collective> found_;
  std::unordered_map<int64_t, Reduction> reductions_;
  // A compact group form can stand for a million devices, so the total is bounded: 5,000 collectives over 10,000
  // devices fit.
  int64_t id_budget_ = int64_t{1} << 26;
};

}  // namespace

bool FindCollectives(const Module& module, const DeviceAssignment& assignment, std::vector<Collective>* collectives,
                     std::string* error) {
  return Finder(module, assignment).Run(collectives, error);
}

}  // namespace xla_shmem::hlo
