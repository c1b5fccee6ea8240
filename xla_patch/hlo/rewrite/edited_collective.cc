#include "xla_patch/hlo/rewrite/edited_collective.h"

#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"
#include "xla_patch/hlo/rewrite/new_instructions.h"

namespace xla_shmem::hlo {
namespace {

bool IsChanged(uint32_t field, const InstructionChange& change) {
  switch (field) {
    case InstructionField::kId:
      return change.id.has_value();
    case InstructionField::kShape:
      return change.shape.has_value();
    case InstructionField::kOperandIds:
      return change.operands.has_value();
    case InstructionField::kReplicaGroups:
    case InstructionField::kCollectiveDeviceList:
    case InstructionField::kIotaCollectiveDeviceList:
    case InstructionField::kMeshAxesReplicaGroupList:
      return change.groups.has_value();
    case InstructionField::kSourceTargetPairs:
      return change.pairs.has_value();
    case InstructionField::kFrontendAttributes:
      return change.attributes.has_value();
    default:
      return false;
  }
}

}  // namespace

std::string ChangeInstruction(std::string_view body, const InstructionChange& change) {
  std::string out;
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    if (!IsChanged(field.number, change)) out.append(field.whole);
  }
  if (change.id.has_value()) WriteIntField(InstructionField::kId, *change.id, &out);
  if (change.shape.has_value()) WriteBytesField(InstructionField::kShape, *change.shape, &out);
  if (change.operands.has_value()) WritePackedInts(InstructionField::kOperandIds, *change.operands, &out);
  if (change.groups.has_value()) WriteGroups(*change.groups, &out);
  if (change.pairs.has_value()) WritePairs(*change.pairs, &out);
  if (change.attributes.has_value()) {
    WriteBytesField(InstructionField::kFrontendAttributes, MergeAttributes(AttributeFields(body), *change.attributes),
                    &out);
  }
  return out;
}

std::string WithDimension(std::string_view shape, size_t dimension, int64_t size) {
  std::string out;
  std::vector<int64_t> dimensions;
  FieldReader reader(shape);
  for (Field field; reader.Next(&field);) {
    if (field.number != ShapeField::kDimensions) {
      out.append(field.whole);
    } else if (!AppendRepeatedInts(field, &dimensions)) {
      return std::string(shape);  // not a shape that ParseShape reads
    }
  }
  if (dimension < dimensions.size()) dimensions[dimension] = size;
  WritePackedInts(ShapeField::kDimensions, dimensions, &out);
  return out;
}

std::string WithElements(std::string_view tuple, const std::vector<std::pair<size_t, std::string>>& elements) {
  std::string out;
  size_t index = 0;
  FieldReader reader(tuple);
  for (Field field; reader.Next(&field);) {
    if (field.number != ShapeField::kTupleShapes) {
      out.append(field.whole);
      continue;
    }
    std::string_view element = field.bytes;
    for (const auto& [place, replacement] : elements) {
      if (place == index) element = replacement;
    }
    WriteBytesField(ShapeField::kTupleShapes, element, &out);
    ++index;
  }
  return out;
}

}  // namespace xla_shmem::hlo
