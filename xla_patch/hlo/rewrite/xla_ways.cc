#include "xla_patch/hlo/rewrite/xla_ways.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/backend_config.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/rewrite/custom_call.h"
#include "xla_patch/hlo/rewrite/edited_collective.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"
#include "xla_patch/types/json_text.h"

namespace xla_shmem::hlo {
namespace {

constexpr std::string_view kMode = R"("collectives_mode":"COLLECTIVES_SYMMETRIC_MEMORY")";

// Fields by which an instruction is known and placed where it stands.
bool IsOfPlace(uint32_t field) {
  return field == InstructionField::kName || field == InstructionField::kId || field == InstructionField::kOperandIds ||
         field == InstructionField::kControlPredecessorIds;
}

bool IsBackendConfig(uint32_t field) {
  return field == InstructionField::kBackendConfig || field == InstructionField::kBackendConfigPayload;
}

bool HasAliasing(const Instruction& instruction) {
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kOutputOperandAliasing) return true;
  }
  return false;
}

// Whether its result has buffers of its own, and no other instruction's result has its operands'. A list of what is
// known: whatever else there is may share them.
bool HasOwnBuffers(const Instruction& instruction) {
  const std::string_view opcode = OpcodeOf(instruction);
  return (opcode == "fusion" || opcode == "copy" || opcode == "custom-call") && !HasAliasing(instruction);
}

// Whether something but the collective may share the buffer of the value `id`.
bool MayBeShared(const Module& module, const Computation& computation, int64_t id, size_t collective) {
  if (computation.root_id == id) return true;
  for (size_t i = computation.first; i < computation.last; ++i) {
    std::vector<int64_t> operands;
    const Instruction& user = module.instructions[i];
    if (i == collective || !DecodeOperands(user, &operands)) continue;
    if (std::find(operands.begin(), operands.end(), id) != operands.end() && !HasOwnBuffers(user)) return true;
  }
  return false;
}

std::string WithConfig(std::string_view body, std::string_view config) {
  std::string out;
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    if (!IsBackendConfig(field.number)) out.append(field.whole);
  }
  WriteBytesField(InstructionField::kBackendConfig, config, &out);
  return out;
}

std::string_view NameOf(const Instruction& instruction) {
  FieldReader reader(instruction.body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kName) return field.bytes;
  }
  return {};
}

// The edits of one all-gather; instructions may be edited more than once before they are written.
class OneSided {
 public:
  OneSided(const Module& module, const Collective& collective, const Attributes& attributes, NewNumbers* numbers)
      : module_(module),
        collective_(collective),
        computation_(module.computations[collective.computation]),
        attributes_(attributes),
        numbers_(*numbers) {}

  std::vector<InstructionEdit> Edit() {
    if (collective_.instruction != collective_.op) {
      edits_.push_back({collective_.op_computation, collective_.op, Symmetric(collective_.op), {}});
    }
    InstructionEdit issued = {collective_.computation, collective_.instruction, Symmetric(collective_.instruction), {}};
    CopyOperands(&issued);
    const bool is_pair = collective_.done >= 0;
    InstructionEdit done = {collective_.computation, static_cast<size_t>(collective_.done), "", {}};
    if (is_pair) done.body = WithAttributes(module_.instructions[done.instruction].body, attributes_);
    CopyResult(is_pair ? &done : &issued);
    edits_.push_back(std::move(issued));
    if (is_pair) edits_.push_back(std::move(done));
    return std::move(edits_);
  }

 private:
  std::string Symmetric(size_t instruction) const {
    const std::string_view body = module_.instructions[instruction].body;
    return WithAttributes(WithConfig(body, WithSymmetricMode(BackendConfigOf(module_.payloads, body))), attributes_);
  }

  void CopyOperands(InstructionEdit* issued) {
    const InstructionIndex index(module_, computation_);
    std::vector<int64_t> operands = collective_.fields.operand_ids;
    for (int64_t& operand : operands) {
      const Instruction* made = index.Find(operand);
      if (made != nullptr && HasOwnBuffers(*made) &&
          !MayBeShared(module_, computation_, operand, collective_.instruction)) {
        continue;
      }
      const int64_t id = numbers_.Id(module_.instructions[collective_.instruction].id);
      issued->before.push_back(
          Copy({std::string(collective_.fields.name) + ".operand", id}, made == nullptr ? "" : made->shape, operand));
      operand = id;
    }
    InstructionChange change;
    change.operands = std::move(operands);
    issued->body = ChangeInstruction(issued->body, change);
  }

  // The copy takes the id of what gave the result until now, so that no reader changes.
  void CopyResult(InstructionEdit* last) {
    const Instruction& gives = module_.instructions[last->instruction];
    if (!MayBeShared(module_, computation_, gives.id, last->instruction)) return;
    InstructionChange change;
    change.id = numbers_.Id(gives.id);
    last->before.push_back({ChangeInstruction(last->body, change), *change.id});
    last->body = Copy({std::string(NameOf(gives)) + ".result", gives.id}, gives.shape, *change.id).body;
  }

  const Module& module_;
  const Collective& collective_;
  const Computation& computation_;
  const Attributes& attributes_;
  NewNumbers& numbers_;
  std::vector<InstructionEdit> edits_;
};

}  // namespace

std::string WithSymmetricMode(std::string_view config) {
  std::string_view collective;
  std::string_view mode;
  const auto insert = [&](size_t at, const std::string& text) {
    return std::string(config.substr(0, at)) + text + std::string(config.substr(at));
  };
  const auto is_empty = [](std::string_view object) { return object.find_first_not_of("{ \n") == object.rfind('}'); };
  if (!FindMember(config, "collective_backend_config", &collective)) {
    const std::string text = R"("collective_backend_config":{)" + std::string(kMode) + "}";
    return config.empty() ? "{" + text + "}" : insert(config.find('{') + 1, text + (is_empty(config) ? "" : ","));
  }
  if (!FindMember(collective, "collectives_mode", &mode)) {
    const size_t begin = collective.data() - config.data() + 1;
    return insert(begin, std::string(kMode) + (is_empty(collective) ? "" : ","));
  }
  const size_t begin = mode.data() - config.data();
  return std::string(config.substr(0, begin)) + std::string(kMode.substr(kMode.find(':') + 1)) +
         std::string(config.substr(begin + mode.size()));
}

std::vector<InstructionEdit> PutBackFromFusion(const Module& module, const Collective& collective,
                                               const Attributes& attributes, std::set<size_t>* removed) {
  const auto fusion = static_cast<size_t>(collective.fusion);
  const size_t computation = module.computations[collective.op_computation].caller;
  std::string body;
  FieldReader own(module.instructions[collective.op].body);
  for (Field field; own.Next(&field);) {
    if (!IsOfPlace(field.number)) body.append(field.whole);
  }
  FieldReader place(module.instructions[fusion].body);
  for (Field field; place.Next(&field);) {
    if (IsOfPlace(field.number)) body.append(field.whole);
  }
  std::vector<InstructionEdit> edits = {{computation, fusion, WithAttributes(body, attributes), {}}};
  if (collective.done >= 0) {
    for (const size_t half : {collective.instruction, static_cast<size_t>(collective.done)}) {
      edits.push_back({collective.computation, half, WithAttributes(module.instructions[half].body, attributes), {}});
    }
  }
  removed->insert(collective.op_computation);
  return edits;
}

FormVetoes FormsOf(const Collective& collective, Lowering lowering) {
  FormVetoes vetoes = {UnsupportedForm(collective, lowering), collective.unsupported_form};
  if (!vetoes.one_sided.has_value() && collective.result.IsTuple()) vetoes.one_sided = "it is combined";
  return vetoes;
}

std::vector<InstructionEdit> MakeOneSided(const Module& module, const Collective& collective,
                                          const Attributes& attributes, NewNumbers* numbers) {
  return OneSided(module, collective, attributes, numbers).Edit();
}

}  // namespace xla_shmem::hlo
