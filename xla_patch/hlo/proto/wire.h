#ifndef XLA_SHMEM_HLO_PROTO_WIRE_H_
#define XLA_SHMEM_HLO_PROTO_WIRE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xla_shmem::hlo {

// Protobuf wire types (https://protobuf.dev/programming-guides/encoding).
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// One field as it lies in the buffer; nothing is copied.
struct Field {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // varint and fixed fields
  std::string_view bytes;  // length-delimited fields: the content
  std::string_view whole;  // tag, length and content
  int64_t AsInt() const { return static_cast<int64_t>(value); }
};

// Walks the top-level fields of one message. Never reads outside it, whatever the bytes are; groups (deprecated, unused
// by XLA) and malformed fields end the walk with ok() == false.
//
//   FieldReader reader(message);
//   for (Field field; reader.Next(&field);) { ... }
//   if (!reader.ok()) { ... reader.error() ... }
class FieldReader {
 public:
  explicit FieldReader(std::string_view message)
      : begin_(message.data()), next_(message.data()), end_(message.data() + message.size()) {}

  bool Next(Field* field);
  bool ok() const { return problem_ == nullptr; }
  std::string error() const;  // "truncated varint at byte 17"

 private:
  // Tags and most values fit in one byte.
  bool ReadVarint(uint64_t* value) {
    if (next_ < end_ && static_cast<unsigned char>(*next_) < 0x80) {
      *value = static_cast<unsigned char>(*next_++);
      return true;
    }
    return ReadLongVarint(value);
  }
  bool ReadLongVarint(uint64_t* value);
  bool Fail(const char* problem) {
    problem_ = problem;
    return false;
  }

  const char* begin_;
  const char* next_;
  const char* end_;
  const char* problem_ = nullptr;
};

// Appends one occurrence of a repeated int64/int32/bool field, packed or not. False if malformed.
bool AppendRepeatedInts(const Field& field, std::vector<int64_t>* values);

// Writers append to `out`.
void WriteVarint(uint64_t value, std::string* out);
void WriteTag(uint32_t number, WireType type, std::string* out);
void WriteIntField(uint32_t number, int64_t value, std::string* out);
void WriteBytesField(uint32_t number, std::string_view bytes, std::string* out);
// A packed repeated field; nothing if it is empty.
void WritePackedInts(uint32_t number, const std::vector<int64_t>& values, std::string* out);
int VarintSize(uint64_t value);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_WIRE_H_
