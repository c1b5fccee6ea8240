#include "xla_patch/hlo/proto/attributes.h"

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// FrontendAttributes.map is field 1; an entry has key 1 and value 2.
bool ReadOwnEntry(const Field& entry, std::string_view* key, std::string_view* value) {
  if (entry.number != FrontendAttributesField::kMap || entry.type != WireType::kBytes) return false;
  FieldReader reader(entry.bytes);
  for (Field field; reader.Next(&field);) {
    if (field.number == MapEntryField::kKey) {
      *key = field.bytes;
    } else if (field.number == MapEntryField::kValue) {
      *value = field.bytes;
    }
  }
  return reader.ok() && key->substr(0, attribute::kPrefix.size()) == attribute::kPrefix;
}

}  // namespace

std::vector<std::string_view> AttributeFields(std::string_view instruction) {
  std::vector<std::string_view> protos;
  FieldReader reader(instruction);
  for (Field field; reader.Next(&field);) {
    if (field.number == InstructionField::kFrontendAttributes) protos.push_back(field.bytes);
  }
  return protos;
}

bool AreWellFormed(std::string_view proto) {
  FieldReader reader(proto);
  for (Field entry; reader.Next(&entry);) {
    FieldReader inner(entry.bytes);
    Field ignored;
    while (inner.Next(&ignored)) {
    }
    if (entry.number == FrontendAttributesField::kMap && (entry.type != WireType::kBytes || !inner.ok())) return false;
  }
  return reader.ok();
}

Attributes ReadOwnAttributes(const std::vector<std::string_view>& protos) {
  Attributes attributes;
  for (const std::string_view proto : protos) {
    FieldReader reader(proto);
    for (Field entry; reader.Next(&entry);) {
      std::string_view key;
      std::string_view value;
      if (ReadOwnEntry(entry, &key, &value)) attributes[std::string(key)] = std::string(value);
    }
  }
  return attributes;
}

std::string MergeAttributes(const std::vector<std::string_view>& protos, const Attributes& own) {
  std::string merged;
  for (const std::string_view proto : protos) {
    FieldReader reader(proto);
    for (Field entry; reader.Next(&entry);) {
      std::string_view key;
      std::string_view value;
      if (!ReadOwnEntry(entry, &key, &value)) merged.append(entry.whole);
    }
  }
  std::string entry;
  for (const auto& [key, value] : own) {
    entry.clear();
    WriteBytesField(MapEntryField::kKey, key, &entry);
    WriteBytesField(MapEntryField::kValue, value, &entry);
    WriteBytesField(FrontendAttributesField::kMap, entry, &merged);
  }
  return merged;
}

}  // namespace xla_shmem::hlo
