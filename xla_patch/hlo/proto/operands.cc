#include "xla_patch/hlo/proto/operands.h"

#include <string_view>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {

bool DecodeOperands(const Instruction& instruction, std::vector<int64_t>* operand_ids) {
  operand_ids->clear();
  FieldReader reader(instruction.has_loose_operands ? instruction.body : std::string_view());
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kOperandIds && !AppendRepeatedInts(field, operand_ids)) {
      return false;
    }
  }
  if (!instruction.has_loose_operands) {
    Field packed;
    packed.type = WireType::kBytes;
    packed.bytes = instruction.packed_operands;
    return AppendRepeatedInts(packed, operand_ids);
  }
  return reader.ok();
}

}  // namespace xla_shmem::hlo
