#include "xla_patch/hlo/proto/collective_fields.h"

#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/backend_config.h"
#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

bool DecodePair(std::string_view proto, std::pair<int64_t, int64_t>* pair) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == SourceTargetField::kSource) {
      pair->first = field.AsInt();
    } else if (field.number == SourceTargetField::kTarget) {
      pair->second = field.AsInt();
    }
  }
  return reader.ok();
}

// Metadata is for reports only, so unreadable parts are ignored.
void DecodeMetadata(std::string_view proto, CollectiveFields* fields) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == OpMetadataField::kSourceFile) {
      fields->source_file = field.bytes;
    } else if (field.number == OpMetadataField::kSourceLine) {
      fields->source_line = static_cast<int32_t>(field.value);
    } else if (field.number == OpMetadataField::kStackFrameId) {
      fields->stack_frame = static_cast<int32_t>(field.value);
    }
  }
}

// A field that says who takes part; others are passed over. False if it is malformed.
bool DecodeParticipants(const Field& field, CollectiveFields* fields) {
  switch (field.number) {
    case InstructionField::kChannelId:    // channel_id; not positive means none
    case InstructionField::kAllReduceId:  // all_reduce_id, its older name
      if (field.AsInt() <= 0) break;
      fields->has_channel_id = true;
      fields->channel_id = field.AsInt();
      break;
    case InstructionField::kReplicaGroups:
      fields->groups.replica_groups.push_back(field.bytes);
      break;
    case InstructionField::kSourceTargetPairs:
      fields->pairs.emplace_back();
      return DecodePair(field.bytes, &fields->pairs.back());
    case InstructionField::kUseGlobalDeviceIds:
      fields->use_global_device_ids = field.value != 0;
      break;
    case InstructionField::kCollectiveDeviceList:
    case InstructionField::kIotaCollectiveDeviceList:
    case InstructionField::kMeshAxesReplicaGroupList:
      fields->groups.list_field = field.number;  // a oneof: the last one counts
      fields->groups.list = field.bytes;
      break;
    default:
      break;
  }
  return true;
}

// A field that is repeated; others are passed over. False if it is malformed.
bool DecodeRepeated(const Field& field, CollectiveFields* fields) {
  switch (field.number) {
    case InstructionField::kDimensions:
      return AppendRepeatedInts(field, &fields->dimensions);
    case InstructionField::kOperandIds:
      return AppendRepeatedInts(field, &fields->operand_ids);
    case InstructionField::kCalledComputationIds:
      return AppendRepeatedInts(field, &fields->callees);
    case InstructionField::kFrontendAttributes:
      fields->frontend_attributes.push_back(field.bytes);
      return field.type == WireType::kBytes && AreWellFormed(field.bytes);
    case InstructionField::kOutputOperandAliasing:
      fields->aliasing.emplace_back();
      return field.type == WireType::kBytes && DecodeAliasing(field.bytes, &fields->aliasing.back());
    default:
      break;
  }
  return true;
}

}  // namespace

std::string EncodeAliasing(const Aliasing& aliasing) {
  std::string proto;
  WritePackedInts(OutputOperandAliasingField::kOutputShapeIndex, aliasing.output_index, &proto);
  if (aliasing.operand != 0) WriteIntField(OutputOperandAliasingField::kOperandIndex, aliasing.operand, &proto);
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
    if (!well_formed) return false;
  }
  return reader.ok();
}

Result<CollectiveFields> DecodeCollective(const Module& module, std::string_view body) {
  CollectiveFields fields;
  std::string_view payload;
  bool has_shape = false;
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    switch (field.number) {
      case InstructionField::kName:
        fields.name = field.bytes;
        break;
      case InstructionField::kShape:
        fields.has_two_shapes = has_shape;
        has_shape = true;
        break;
      case InstructionField::kMetadata:
        DecodeMetadata(field.bytes, &fields);
        break;
      case InstructionField::kDynamicSliceSizes:
        fields.has_slices = true;
        break;
      case InstructionField::kCustomCallTarget:
        fields.custom_call_target = field.bytes;
        break;
      case InstructionField::kControlPredecessorIds:
        fields.has_control_predecessors = true;
        break;
      case InstructionField::kBackendConfig:
        fields.backend_config = field.bytes;
        break;
      case InstructionField::kBackendConfigPayload:
        payload = ResolvePayload(module.payloads, field.bytes);
        break;
      default:
        break;
    }
    if (!DecodeParticipants(field, &fields) || !DecodeRepeated(field, &fields)) {
      return Status::Error("field " + std::to_string(field.number) + " is malformed");
    }
  }
  if (fields.backend_config.empty()) fields.backend_config = payload;
  if (!reader.ok()) return Status::Error(reader.error());
  return fields;
}

}  // namespace xla_shmem::hlo
