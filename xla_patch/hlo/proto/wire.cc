#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {

bool FieldReader::ReadLongVarint(uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift <= 63; shift += 7) {
    if (next_ == end_) return Fail("truncated varint");
    const uint64_t byte = static_cast<unsigned char>(*next_++);
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      // The tenth byte holds the last bit of 64.
      if (shift == 63 && byte > 1) return Fail("varint of more than 64 bits");
      *value = result;
      return true;
    }
  }
  return Fail("varint of more than 10 bytes");
}

bool FieldReader::Next(Field* field) {
  if (problem_ != nullptr || next_ == end_) return false;
  const char* const start = next_;
  uint64_t tag = 0;
  if (!ReadVarint(&tag)) return false;
  if (tag > UINT32_MAX || tag >> 3 == 0) return Fail("invalid field number");
  field->number = static_cast<uint32_t>(tag >> 3);
  field->value = 0;
  field->bytes = {};
  switch (tag & 7) {
    case 0:
      field->type = WireType::kVarint;
      if (!ReadVarint(&field->value)) return false;
      break;
    case 1:
    case 5: {
      field->type = (tag & 7) == 1 ? WireType::kFixed64 : WireType::kFixed32;
      const int size = (tag & 7) == 1 ? 8 : 4;
      if (end_ - next_ < size) return Fail("truncated fixed-size field");
      for (int i = 0; i < size; ++i) field->value |= uint64_t{static_cast<unsigned char>(next_[i])} << (8 * i);
      next_ += size;
      break;
    }
    case 2: {
      field->type = WireType::kBytes;
      uint64_t length = 0;
      if (!ReadVarint(&length)) return false;
      if (length > static_cast<uint64_t>(end_ - next_)) return Fail("field longer than its message");
      field->bytes = std::string_view(next_, length);
      next_ += length;
      break;
    }
    default:
      return Fail("group or unknown wire type");
  }
  field->whole = std::string_view(start, next_ - start);
  return true;
}

std::string FieldReader::error() const {
  return problem_ == nullptr ? "" : std::string(problem_) + " at byte " + std::to_string(next_ - begin_);
}

bool AppendRepeatedInts(const Field& field, std::vector<int64_t>* values) {
  if (field.type == WireType::kVarint) {
    values->push_back(field.AsInt());
    return true;
  }
  if (field.type != WireType::kBytes) return false;
  const std::string_view packed = field.bytes;
  size_t position = 0;
  while (position < packed.size()) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (position == packed.size() || shift > 63) return false;
      const uint64_t byte = static_cast<unsigned char>(packed[position++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    values->push_back(static_cast<int64_t>(value));
  }
  return true;
}

int VarintSize(uint64_t value) {
  int size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

void WriteVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void WriteTag(uint32_t number, WireType type, std::string* out) {
  WriteVarint(uint64_t{number} << 3 | static_cast<uint64_t>(type), out);
}

void WriteIntField(uint32_t number, int64_t value, std::string* out) {
  WriteTag(number, WireType::kVarint, out);
  WriteVarint(static_cast<uint64_t>(value), out);
}

void WriteBytesField(uint32_t number, std::string_view bytes, std::string* out) {
  WriteTag(number, WireType::kBytes, out);
  WriteVarint(bytes.size(), out);
  out->append(bytes);
}

void WritePackedInts(uint32_t number, const std::vector<int64_t>& values, std::string* out) {
  if (values.empty()) return;
  std::string packed;
  for (const int64_t value : values) WriteVarint(static_cast<uint64_t>(value), &packed);
  WriteBytesField(number, packed, out);
}

}  // namespace xla_shmem::hlo
