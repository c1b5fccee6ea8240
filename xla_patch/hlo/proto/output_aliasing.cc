#include "xla_patch/hlo/proto/output_aliasing.h"

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {

std::string EncodeAliasing(const Aliasing& aliasing) {
  std::string proto;
  WritePackedInts(OutputOperandAliasingField::kOutputShapeIndex, aliasing.output_index, &proto);
  if (aliasing.operand != 0) {
    WriteIntField(OutputOperandAliasingField::kOperandIndex, aliasing.operand, &proto);
  }
  WritePackedInts(OutputOperandAliasingField::kOperandShapeIndex, aliasing.operand_index, &proto);
  return proto;
}

bool DecodeAliasing(std::string_view proto, Aliasing* aliasing) {
  *aliasing = Aliasing();
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    bool well_formed = true;
    if (field.number == OutputOperandAliasingField::kOutputShapeIndex) {
      well_formed = AppendRepeatedInts(field, &aliasing->output_index);
    } else if (field.number == OutputOperandAliasingField::kOperandIndex) {
      aliasing->operand = field.AsInt();
    } else if (field.number == OutputOperandAliasingField::kOperandShapeIndex) {
      well_formed = AppendRepeatedInts(field, &aliasing->operand_index);
    }
    if (!well_formed) {
      return false;
    }
  }
  return reader.ok();
}

}  // namespace xla_shmem::hlo
