#include "xla_patch/hlo/rewrite/new_instructions.h"

#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

std::string Begin(const NewName& name, std::string_view opcode, std::string_view shape,
                  const std::vector<int64_t>& operands) {
  std::string out;
  WriteBytesField(InstructionField::kName, name.name, &out);
  WriteBytesField(InstructionField::kOpcode, opcode, &out);
  WriteBytesField(InstructionField::kShape, shape, &out);
  WriteIntField(InstructionField::kId, name.id, &out);
  WritePackedInts(InstructionField::kOperandIds, operands, &out);
  return out;
}

}  // namespace

NewInstruction NewCall(const CallForm& form, int64_t id) {
  CustomCall call;
  call.target = form.target;
  call.backend_config = form.backend_config;
  call.shape = form.shape;
  call.id = id;
  call.name = std::string(form.name) + "." + std::to_string(id & 0xffffffff);
  call.operands = form.operands;
  call.aliasing = form.aliasing;
  return {AsCustomCall({}, call, {}), id};
}

void WriteGroups(const IdGroups& groups, std::string* out) {
  for (size_t group = 0; group + 1 < groups.offsets.size(); ++group) {
    const auto first = groups.ids.begin();
    std::string ids;
    WritePackedInts(ReplicaGroupField::kReplicaIds,
                    std::vector<int64_t>(first + groups.offsets[group], first + groups.offsets[group + 1]), &ids);
    WriteBytesField(InstructionField::kReplicaGroups, ids, out);
  }
}

void WritePairs(const std::vector<std::pair<int64_t, int64_t>>& pairs, std::string* out) {
  for (const auto& [source, target] : pairs) {
    std::string pair;
    WriteIntField(SourceTargetField::kSource, source, &pair);
    WriteIntField(SourceTargetField::kTarget, target, &pair);
    WriteBytesField(InstructionField::kSourceTargetPairs, pair, out);
  }
}

std::string VectorShape(ElementType type, int64_t elements) {
  std::string layout;
  WritePackedInts(LayoutField::kMinorToMajor, {0}, &layout);
  std::string out;
  WriteIntField(ShapeField::kElementType, static_cast<int64_t>(type), &out);
  WritePackedInts(ShapeField::kDimensions, {elements}, &out);
  WriteBytesField(ShapeField::kLayout, layout, &out);
  WritePackedInts(ShapeField::kIsDynamicDimension, {0}, &out);
  return out;
}

std::string TupleShape(const std::vector<std::string>& elements) {
  std::string out;
  WriteIntField(ShapeField::kElementType, static_cast<int64_t>(ElementType::kTuple), &out);
  for (const std::string& element : elements) WriteBytesField(ShapeField::kTupleShapes, element, &out);
  return out;
}

NewInstruction Bitcast(const NewName& name, std::string_view shape, int64_t operand) {
  return {Begin(name, "bitcast", shape, {operand}), name.id};
}

NewInstruction Copy(const NewName& name, std::string_view shape, int64_t operand) {
  return {Begin(name, "copy", shape, {operand}), name.id};
}

NewInstruction TupleElement(const NewName& name, std::string_view shape, int64_t operand, int64_t index) {
  std::string out = Begin(name, "get-tuple-element", shape, {operand});
  WriteIntField(InstructionField::kTupleIndex, index, &out);
  return {std::move(out), name.id};
}

NewInstruction AsStockCollective(const NewName& name, const StockCollective& collective, std::string_view original,
                                 const Attributes& own) {
  std::string out = Begin(name, collective.opcode, collective.shape, collective.operands);
  FieldReader reader(original);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kMetadata || field.number == InstructionField::kControlPredecessorIds) {
      out.append(field.whole);
    }
  }
  WritePackedInts(InstructionField::kDimensions, collective.dimensions, &out);
  WritePackedInts(InstructionField::kCalledComputationIds, collective.callees, &out);
  WriteGroups(collective.groups, &out);
  WritePairs(collective.pairs, &out);
  if (collective.channel.has_value()) WriteIntField(InstructionField::kChannelId, *collective.channel, &out);
  if (collective.use_global_device_ids) WriteIntField(InstructionField::kUseGlobalDeviceIds, 1, &out);
  WriteBytesField(InstructionField::kFrontendAttributes, MergeAttributes(AttributeFields(original), own), &out);
  return {std::move(out), name.id};
}

}  // namespace xla_shmem::hlo
