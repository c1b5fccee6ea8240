#include "xla_patch/hlo/rewrite/aliased_parameters.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"

namespace xla_shmem::hlo {
namespace {

// From an xla.HloInputOutputAliasProto.
Result<std::set<int64_t>> ReadAliasedNumbers(std::string_view proto) {
  std::set<int64_t> numbers;
  FieldReader reader(proto);
  for (Field entry; reader.Next(&entry);) {
    if (entry.number != InputOutputAliasField::kEntries) continue;
    int64_t number = 0;
    std::vector<int64_t> index;
    FieldReader fields(entry.bytes);
    for (Field field; fields.Next(&field);) {
      if (field.number == AliasEntryField::kParameterNumber) {
        number = field.AsInt();
      } else if (field.number == AliasEntryField::kParameterShapeIndex && !AppendRepeatedInts(field, &index)) {
        return Status::Error("its aliasing of parameters cannot be read");
      }
    }
    if (!index.empty()) return Status::Error("a result shares the buffer of a part of a tuple parameter");
    numbers.insert(number);
  }
  return numbers;
}

struct Parameter {
  bool is_parameter = false;
  int64_t number = 0;
  std::string_view name;
  std::string_view shape;
};

Parameter ReadParameter(std::string_view body) {
  Parameter parameter;
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kName) {
      parameter.name = field.bytes;
    } else if (field.number == InstructionField::kOpcode) {
      parameter.is_parameter = field.bytes == "parameter";
    } else if (field.number == InstructionField::kShape) {
      parameter.shape = field.bytes;
    } else if (field.number == InstructionField::kParameterNumber) {
      parameter.number = field.AsInt();
    }
  }
  return parameter;
}

std::string WithNameAndId(std::string_view body, std::string_view name, int64_t id) {
  std::string out;
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    if (field.number != InstructionField::kName && field.number != InstructionField::kId) out.append(field.whole);
  }
  WriteBytesField(InstructionField::kName, name, &out);
  WriteIntField(InstructionField::kId, id, &out);
  return out;
}

}  // namespace

bool HasAliasedParameters(const Module& module) {
  const Result<std::set<int64_t>> numbers = ReadAliasedNumbers(module.input_output_alias);
  return !numbers.ok() || !numbers->empty();
}

Status CopyAliasedParameters(const Module& module, std::vector<InstructionEdit>* edits) {
  Result<std::set<int64_t>> numbers = ReadAliasedNumbers(module.input_output_alias);
  if (!numbers.ok()) return numbers.status();
  const Computation& entry = module.computations[module.entry];
  int64_t next_id = 0;
  for (size_t i = entry.first; i < entry.last; ++i) next_id = std::max(next_id, module.instructions[i].id);
  for (const InstructionEdit& edit : *edits) {
    for (const NewInstruction& added : edit.before) {
      if (edit.computation == module.entry) next_id = std::max(next_id, added.id);
    }
  }
  for (size_t i = entry.first; i < entry.last && !numbers->empty(); ++i) {
    const Instruction& instruction = module.instructions[i];
    const Parameter parameter = ReadParameter(instruction.body);
    if (!parameter.is_parameter || numbers->erase(parameter.number) == 0) continue;
    ++next_id;
    const std::string name = std::string(parameter.name) + ".donated";
    edits->push_back({module.entry,
                      i,
                      Copy({std::string(parameter.name), instruction.id}, parameter.shape, next_id).body,
                      {NewInstruction{WithNameAndId(instruction.body, name, next_id), next_id}}});
  }
  return Status();
}

}  // namespace xla_shmem::hlo
