#include "xla_patch/hlo/proto/attributes.h"
#include "xla_patch/hlo/proto/backend_config.h"
#include "xla_patch/hlo/proto/collective_reader.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

bool DecodePair(std::string_view proto, std::pair<int64_t, int64_t>* pair) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == 1) {
      pair->first = field.AsInt();
    } else if (field.number == 2) {
      pair->second = field.AsInt();
    }
  }
  return reader.ok();
}

// Metadata is for reports only, so what cannot be read is simply not shown.
void DecodeMetadata(std::string_view proto, CollectiveFields* fields) {
  FieldReader reader(proto);
  for (Field field; reader.Next(&field);) {
    if (field.number == 3) {
      fields->source_file = field.bytes;
    } else if (field.number == 4) {
      fields->source_line = static_cast<int32_t>(field.value);
    } else if (field.number == 15) {
      fields->stack_frame = static_cast<int32_t>(field.value);
    }
  }
}

}  // namespace

bool DecodeOperands(const Instruction& instruction, std::vector<int64_t>* operand_ids) {
  operand_ids->clear();
  FieldReader reader(instruction.has_loose_operands ? instruction.body : std::string_view());
  for (Field field; reader.Next(&field);) {
    if (field.number == 36 && !AppendRepeatedInts(field, operand_ids)) {
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

bool DecodeCollective(const Module& module, std::string_view body, CollectiveFields* fields, std::string* error) {
  std::string_view payload;
  bool has_shape = false;
  FieldReader reader(body);
  for (Field field; reader.Next(&field);) {
    bool well_formed = true;
    switch (field.number) {
      case 1:
        fields->name = field.bytes;
        break;
      case 3:
        fields->has_two_shapes = has_shape;
        has_shape = true;
        break;
      case 7:
        DecodeMetadata(field.bytes, fields);
        break;
      case 14:
        well_formed = AppendRepeatedInts(field, &fields->dimensions);
        break;
      case 20:
        fields->has_slices = true;
        break;
      case 26:  // channel_id; not positive means none
      case 45:  // all_reduce_id, its older name
        fields->has_channel_id = fields->has_channel_id || field.AsInt() > 0;
        break;
      case 28:
        fields->custom_call_target = field.bytes;
        break;
      case 36:
        well_formed = AppendRepeatedInts(field, &fields->operand_ids);
        break;
      case 37:
        fields->has_control_predecessors = true;
        break;
      case 38:
        well_formed = AppendRepeatedInts(field, &fields->callees);
        break;
      case 43:
        fields->backend_config = field.bytes;
        break;
      case 49:
        fields->groups.replica_groups.push_back(field.bytes);
        break;
      case 52:
        fields->pairs.emplace_back();
        well_formed = DecodePair(field.bytes, &fields->pairs.back());
        break;
      case 68:
        fields->frontend_attributes.push_back(field.bytes);
        well_formed = field.type == WireType::kBytes && AreWellFormed(field.bytes);
        break;
      case 74:
        fields->aliasing.emplace_back();
        well_formed = field.type == WireType::kBytes && DecodeAliasing(field.bytes, &fields->aliasing.back());
        break;
      case 71:
        fields->use_global_device_ids = field.value != 0;
        break;
      case 87:
      case 92:
      case 93:
        fields->groups.list_field = field.number;  // a oneof: the last one counts
        fields->groups.list = field.bytes;
        break;
      case 99:
        payload = ResolvePayload(module.payloads, field.bytes);
        break;
      default:
        break;
    }
    if (!well_formed) {
      *error = "field " + std::to_string(field.number) + " is malformed";
      return false;
    }
  }
  if (fields->backend_config.empty()) {
    fields->backend_config = payload;
  }
  if (!reader.ok()) {
    *error = reader.error();
  }
  return reader.ok();
}

}  // namespace xla_shmem::hlo
