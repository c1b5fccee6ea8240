#include "xla_patch/hlo/rewrite/marks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "xla_patch/hlo/proto/collective_reader.h"
#include "xla_patch/hlo/proto/schedule.h"
#include "xla_patch/hlo/proto/shape.h"
#include "xla_patch/hlo/rewrite/call_arguments.h"
#include "xla_patch/hlo/rewrite/editor.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"
#include "xla_patch/hlo/rewrite/new_numbers.h"
#include "xla_patch/types/collective_op.h"

namespace xla_shmem::hlo {
namespace {

class Marker {
 public:
  Marker(const Module& module, const DeviceAssignment& assignment, const Topology& topology)
      : module_(module), topology_(topology), schedule_(module.schedule), numbers_(module, assignment) {}

  std::string Run(const std::vector<Collective>& collectives) {
    std::vector<InstructionEdit> edits;
    for (const Collective& collective : collectives) {
      if (CanMark(collective)) edits.push_back(Mark(collective));
    }
    return edits.empty() ? std::string() : ApplyEdits(module_, edits);
  }

 private:
  // What is known of a computation with collectives.
  struct Place {
    bool has_complete_schedule = false;
    std::set<int64_t> marked;  // ids of the collectives that have their calls
  };

  const Place& PlaceOf(size_t computation) {
    const auto [place, is_new] = places_.try_emplace(computation);
    if (!is_new) return place->second;
    const Computation& where = module_.computations[computation];
    place->second.has_complete_schedule = IsComplete(schedule_, module_, where);
    for (size_t i = where.first; i < where.last; ++i) {
      std::vector<int64_t> operands;
      if (TargetOf(module_.instructions[i]) == kEndTarget && DecodeOperands(module_.instructions[i], &operands) &&
          !operands.empty()) {
        place->second.marked.insert(operands[0]);
      }
    }
    return place->second;
  }

  bool IsKnown(int64_t device) const { return topology_.Find(device) != nullptr; }

  bool HasKnownParticipants(const CollectiveSpec& spec) const {
    if (spec.unsupported_participants.has_value()) return false;
    const bool knows_pairs = std::all_of(spec.pairs.begin(), spec.pairs.end(), [this](const auto& pair) {
      return IsKnown(pair.first) && IsKnown(pair.second);
    });
    return knows_pairs && std::all_of(spec.groups.devices.begin(), spec.groups.devices.end(),
                                      [this](int64_t device) { return IsKnown(device); });
  }

  bool CanMark(const Collective& collective) {
    if (collective.form != CollectiveForm::kSync || collective.fusion >= 0 ||
        module_.computations[collective.computation].is_fusion) {
      return false;
    }
    if (collective.spec.bytes <= 0 || collective.fields.operand_ids.empty()) return false;
    if (!HasKnownParticipants(collective.spec)) return false;
    const Place& place = PlaceOf(collective.computation);
    return place.has_complete_schedule && place.marked.count(module_.instructions[collective.instruction].id) == 0;
  }

  int64_t OperandBytes(const Collective& collective) {
    const auto [index, is_new] =
        index_.try_emplace(collective.computation, module_, module_.computations[collective.computation]);
    int64_t bytes = 0;
    for (const int64_t id : collective.fields.operand_ids) {
      const Instruction* const operand = index->second.Find(id);
      const Result<Shape> shape = operand == nullptr ? Status::Error("no such operand") : ParseShape(operand->shape);
      if (shape.ok()) bytes = Sum(bytes, ShapeBytes(*shape));
    }
    return bytes;
  }

  InstructionEdit Mark(const Collective& collective) {
    const Instruction& instruction = module_.instructions[collective.instruction];
    MlirDictionary dictionary = CallArguments(module_, collective, topology_, collective.spec, 0);
    dictionary.AddString("collective", OpName(collective.spec.op));
    dictionary.AddInt("bytes", OperandBytes(collective));
    const std::string arguments = dictionary.Text();
    InstructionEdit edit{collective.computation, collective.instruction, std::string(instruction.body), {}};
    const std::string word = VectorShape(ElementType::kS32, 1), nothing = TupleShape({});
    edit.before.push_back(NewCall({kBeginTarget, "xla_shmem_begin", arguments, word, collective.fields.operand_ids},
                                  numbers_.Id(instruction.id)));
    edit.after.push_back(NewCall({kEndTarget, "xla_shmem_end", arguments, nothing, {instruction.id, edit.before[0].id}},
                                 numbers_.Id(instruction.id)));
    return edit;
  }

  const Module& module_;
  const Topology& topology_;
  const Schedule schedule_;
  NewNumbers numbers_;
  std::map<size_t, Place> places_;            // by computation
  std::map<size_t, InstructionIndex> index_;  // by computation
};

}  // namespace

Result<std::string> MarkCollectives(const Module& module, const DeviceAssignment& assignment, const Topology& topology,
                                    uint64_t structure_hash, uint64_t form) {
  Result<std::vector<Collective>> collectives = FindCollectives(module, assignment);
  if (!collectives.ok()) return collectives.status();
  // In module order, as edits must be.
  std::sort(collectives->begin(), collectives->end(),
            [](const Collective& a, const Collective& b) { return a.instruction < b.instruction; });
  for (Collective& collective : *collectives) collective.identity.form = form;
  Module identified = module;
  identified.structure_hash = structure_hash;
  return Marker(identified, assignment, topology).Run(*collectives);
}

}  // namespace xla_shmem::hlo
