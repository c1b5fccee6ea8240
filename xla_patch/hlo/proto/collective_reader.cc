#include "xla_patch/hlo/proto/collective_reader.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "xla_patch/assigner/vetoes.h"
#include "xla_patch/hlo/proto/async_pairs.h"
#include "xla_patch/hlo/proto/collective_reduction.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/groups.h"
#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/proto/source_lines.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/proto/wrappers.h"

namespace xla_shmem::hlo {
namespace {

constexpr int64_t kHostMemorySpace = 5;  // Layout::kHostMemorySpace in xla/layout.h

bool IsInteger(ElementType type) { return type >= ElementType::kS8 && type <= ElementType::kU64; }

// Offsets or sizes of a ragged all-to-all: as many numbers for each member.
bool AreCounts(const Shape& operand, int64_t members) {
  return IsInteger(operand.element_type) && operand.dimensions.size() == 1 && !operand.is_tiled && members > 0 &&
         operand.dimensions[0] % members == 0;
}

// Whether moving bytes, as the op does it, makes this result from operands of this shape. `number`: of the operand.
bool Fits(const Collective& collective, const Shape& operand, const Shape& result, size_t number) {
  const CollectiveFields& fields = collective.fields;
  const int64_t members = collective.spec.groups.common_size();
  const int64_t dimension = fields.dimensions.size() == 1 ? fields.dimensions[0] : -1;
  switch (InfoOf(collective.spec.op).shapes) {
    case ShapeRule::kGathered:
      return IsMadeOfParts(result, operand, dimension, members);
    case ShapeRule::kScattered:
      return IsMadeOfParts(operand, result, dimension, members);
    case ShapeRule::kExchanged:
      return SameBytesLayout(operand, result) &&
             (fields.operand_ids.size() == 1 ? IsMadeOfEqualParts(operand, dimension, members)
                                             : SameBytesLayout(result, *collective.result.Leaves()[0]));
    case ShapeRule::kRagged:
      return number == 0   ? HaveEqualRows(operand, result)
             : number == 1 ? SameBytesLayout(operand, result)
                           : AreCounts(operand, members);
    case ShapeRule::kSame:
      break;
  }
  return SameBytesLayout(operand, result);
}

std::string_view NameOf(const Instruction& instruction) {
  std::string_view name;
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) name = field.number == InstructionField::kName ? field.bytes : name;
  return name;
}

class Finder {
 public:
  Finder(const Module& module, const DeviceAssignment& assignment)
      : module_(module), assignment_(assignment), source_lines_(module.stack_frame_index) {}

  Result<std::vector<Collective>> Run() {
    for (size_t i = 0; i < module_.computations.size(); ++i) {
      if (module_.computations[i].is_reachable) Collect(i);
    }
    std::map<size_t, std::vector<Collective*>> by_computation;
    for (Collective& collective : found_) by_computation[collective.computation].push_back(&collective);
    const Schedule schedule(found_.empty() ? std::string_view() : module_.schedule);
    for (const auto& [computation, issued] : by_computation) {
      XLA_SHMEM_RETURN_IF_ERROR(DescribeAll(module_.computations[computation], schedule, issued));
    }
    return std::move(found_);
  }

 private:
  void Collect(size_t computation_index) {
    const Computation& computation = module_.computations[computation_index];
    for (size_t i = computation.first; i < computation.last; ++i) {
      const Instruction& instruction = module_.instructions[i];
      const OpClass op_class = instruction.opcode.op_class;
      if (op_class != OpClass::kCollective && op_class != OpClass::kCollectiveStart && !instruction.is_lowered) {
        continue;
      }
      Collective collective;
      collective.computation = collective.op_computation = computation_index;
      collective.instruction = collective.op = i;
      if (computation.is_fusion) {
        FindFusion(module_, &collective);
      } else if (instruction.is_lowered) {
        collective.form = CollectiveForm::kLowered;
      } else if (op_class == OpClass::kCollectiveStart) {
        collective.form = CollectiveForm::kStartDone;
      } else if (computation.async_start >= 0) {
        collective.form = CollectiveForm::kWrapped;
        collective.computation = computation.async_computation;
        collective.instruction = static_cast<size_t>(computation.async_start);
      }
      found_.push_back(std::move(collective));
    }
  }

  Status DescribeAll(const Computation& computation, const Schedule& schedule, const std::vector<Collective*>& issued) {
    const InstructionIndex index(module_, computation);
    std::vector<Collective*> pairs;
    for (Collective* collective : issued) {
      if (collective->form == CollectiveForm::kStartDone || collective->form == CollectiveForm::kWrapped) {
        pairs.push_back(collective);
      }
    }
    if (!pairs.empty()) LinkDones(module_, computation, index, schedule, pairs);
    for (Collective* collective : issued) {
      if (const Status described = Describe(index, collective); !described.ok()) {
        return Status::Error("not a well-formed HloModuleProto: " +
                             std::string(NameOf(module_.instructions[collective->op])) + ": " + described.message());
      }
    }
    return Status();
  }

  Status Describe(const InstructionIndex& index, Collective* collective) {
    const Instruction& op = module_.instructions[collective->op];
    CollectiveSpec& spec = collective->spec;
    CollectiveFields& fields = collective->fields;
    spec.op = op.opcode.collective;
    CollectiveFields done;
    XLA_SHMEM_RETURN_IF_ERROR(Decode(collective->op, &fields));
    if (collective->done >= 0) XLA_SHMEM_RETURN_IF_ERROR(Decode(collective->done, &done));
    XLA_SHMEM_RETURN_IF_ERROR(ReadResult(op, collective));
    if (collective->fusion >= 0) XLA_SHMEM_RETURN_IF_ERROR(Unfuse(module_, collective));
    if (collective->form == CollectiveForm::kWrapped) {
      XLA_SHMEM_RETURN_IF_ERROR(Unwrap(module_, collective));
    } else if (collective->form == CollectiveForm::kStartDone) {
      // All-reduce works in its operands' buffers (AliasInfo in xla/hlo/analysis/alias_info.cc).
      collective->in_place.assign(fields.operand_ids.size(), spec.op == CollectiveOp::kAllReduce);
    }
    if (spec.op == CollectiveOp::kRaggedAllToAll && fields.operand_ids.size() > 1) {
      // It writes its rows into operand 1, in every form (AliasInfo again).
      collective->in_place.resize(fields.operand_ids.size());
      collective->in_place[1] = true;
    }
    if (fields.source_file.empty()) {
      const SourceLine source = source_lines_.OfFrame(fields.stack_frame);
      fields.source_file = source.file;
      fields.source_line = source.line;
    }
    collective->has_work_between = collective->has_work_between || done.has_control_predecessors;
    if (!fields.operand_ids.empty()) {
      const Instruction* const operand = index.Find(fields.operand_ids[0]);
      const Result<Shape> shape = operand == nullptr ? Status::Error("no such operand") : ParseShape(operand->shape);
      if (shape.ok()) collective->operand_space = shape->memory_space;
    }
    spec.name = std::string(fields.name);
    spec.is_fused = collective->fusion >= 0;
    spec.bytes = ShapeBytes(collective->result);
    for (const Shape* leaf : collective->result.Leaves()) spec.element_types.push_back(leaf->element_type);
    if (collective->form == CollectiveForm::kLowered) return Status();  // the rest is in its attributes
    if (Status resolved = ResolveParticipants(fields, &spec); !resolved.ok()) {
      spec.unsupported_participants = resolved.message();
    }
    if (fields.callees.size() == 1) spec.reduction = CachedReduction(fields.callees[0]);
    if (!collective->unsupported_form.has_value()) {
      collective->unsupported_form =
          done.has_two_shapes ? "its shape is given twice" : FindUnsupportedForm(index, *collective);
    }
    collective->has_s64_numbers = HasS64Numbers(index, *collective);
    return Status();
  }

  Status Decode(size_t instruction, CollectiveFields* fields) const {
    Result<CollectiveFields> decoded = DecodeCollective(module_, module_.instructions[instruction].body);
    if (!decoded.ok()) return decoded.status();
    *fields = *std::move(decoded);
    return Status();
  }

  // The shape of a start also holds operands and context: the result is that of its done.
  Status ReadResult(const Instruction& op, Collective* collective) const {
    Result<Shape> own = ParseShape(op.shape);
    if (!own.ok()) return own.status();
    const bool is_start = collective->form == CollectiveForm::kStartDone;
    const bool holds_operands = is_start && op.opcode.collective != CollectiveOp::kAllReduce;
    if (collective->done < 0) {
      collective->result = holds_operands && own->elements.size() >= 2 ? Shape(own->elements[1]) : *std::move(own);
      return Status();
    }
    Result<Shape> result = ParseShape(module_.instructions[collective->done].shape);
    if (!result.ok()) return result.status();
    collective->result = *std::move(result);
    if (!holds_operands && !HaveSameLeaves(*own, collective->result)) {
      collective->unsupported_form = "its start and done differ in shape";
    }
    return Status();
  }

  Status ResolveParticipants(const CollectiveFields& fields, CollectiveSpec* spec) {
    if (UsesPairs(spec->op)) {
      Result<std::vector<std::pair<int64_t, int64_t>>> pairs =
          ResolvePairs(fields.pairs, fields.has_channel_id, assignment_);
      if (!pairs.ok()) return pairs.status();
      spec->pairs = *std::move(pairs);
      return Status();
    }
    const Result<GroupMode> mode =
        GetGroupMode(fields.has_channel_id, CanBeGlobal(spec->op), fields.use_global_device_ids);
    if (!mode.ok()) return mode.status();
    if (id_budget_ < assignment_.num_devices()) {
      return Status::Error("replica groups: the module lists more participants than can be examined");
    }
    Result<DeviceGroups> groups = ResolveGroups(fields.groups, *mode, assignment_);
    if (!groups.ok()) return groups.status();
    spec->groups = *std::move(groups);
    id_budget_ -= static_cast<int64_t>(spec->groups.devices.size());
    return Status();
  }

  std::optional<ReductionKind> CachedReduction(int64_t computation_id) {
    const auto [entry, is_new] = reductions_.emplace(computation_id, std::nullopt);
    if (is_new) entry->second = MatchReduction(module_, computation_id);
    return entry->second;
  }

  Unsupported FindUnsupportedForm(const InstructionIndex& index, const Collective& collective) const {
    const CollectiveFields& fields = collective.fields;
    if (fields.has_two_shapes) return "its shape is given twice";
    if (fields.has_slices) return kPermutesSlices;
    if (module_.computations[collective.op_computation].has_many_callers) {
      return "its computation is called from more than one place, so it could run twice at once";
    }
    std::vector<TransferredBuffer> buffers;
    const std::vector<const Shape*> leaves = collective.result.Leaves();
    const bool has_one_result = collective.spec.op == CollectiveOp::kRaggedAllToAll && leaves.size() == 1;
    const size_t results = has_one_result ? fields.operand_ids.size() : leaves.size();
    for (size_t i = 0; i < results && i < fields.operand_ids.size(); ++i) {
      const Shape& result = *leaves[has_one_result ? 0 : i];
      const Instruction* operand = index.Find(fields.operand_ids[i]);
      const Result<Shape> shape = operand == nullptr ? Status::Error("no such operand") : ParseShape(operand->shape);
      if (!shape.ok()) return "operand " + std::to_string(i) + " cannot be read";
      buffers.push_back({result.is_dynamic || shape->is_dynamic,
                         result.memory_space == kHostMemorySpace || shape->memory_space == kHostMemorySpace,
                         Fits(collective, *shape, result, i)});
    }
    return UnsupportedBuffers(collective.spec, fields.operand_ids.size(), leaves.size(), buffers);
  }

  bool HasS64Numbers(const InstructionIndex& index, const Collective& collective) const {
    if (collective.spec.op != CollectiveOp::kRaggedAllToAll) return true;
    const std::vector<int64_t>& operands = collective.fields.operand_ids;
    const auto begin = operands.size() < 2 ? operands.end() : operands.begin() + 2;
    return std::all_of(begin, operands.end(), [&](int64_t id) {
      const Instruction* operand = index.Find(id);
      const Result<Shape> shape = operand == nullptr ? Status::Error("no such operand") : ParseShape(operand->shape);
      return shape.ok() && shape->element_type == ElementType::kS64;
    });
  }

  const Module& module_;
  const DeviceAssignment& assignment_;
  const SourceLines source_lines_;
  std::vector<Collective> found_;
  std::unordered_map<int64_t, std::optional<ReductionKind>> reductions_;
  // A compact group form can stand for a million devices, so the total is bounded: 5,000 collectives over 10,000
  // devices fit.
  int64_t id_budget_ = int64_t{1} << 26;
};

}  // namespace

Result<std::vector<Collective>> FindCollectives(const Module& module, const DeviceAssignment& assignment) {
  return Finder(module, assignment).Run();
}

}  // namespace xla_shmem::hlo
