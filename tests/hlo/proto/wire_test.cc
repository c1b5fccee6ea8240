#include "xla_patch/hlo/proto/wire.h"

#include <doctest/doctest.h>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::hlo {
namespace {

using test::Message;

std::string ErrorOf(std::string_view bytes) {
  FieldReader reader(bytes);
  Field field;
  while (reader.Next(&field)) {
  }
  return reader.error();
}

TEST_CASE("every wire type is read with its extent") {
  const std::string bytes = Message().Int(1, 300).Bytes(2, "abc").str() + std::string("\x1d\x01\x02\x03\x04", 5) +
                            std::string("\x21\x01\x00\x00\x00\x00\x00\x00\x80", 9);
  FieldReader reader(bytes);
  Field field;
  REQUIRE(reader.Next(&field));
  CHECK(field.number == 1);
  CHECK(field.value == 300);
  CHECK(field.whole.size() == 3);
  REQUIRE(reader.Next(&field));
  CHECK(field.bytes == "abc");
  REQUIRE(reader.Next(&field));
  CHECK(field.type == WireType::kFixed32);
  CHECK(field.value == 0x04030201);
  REQUIRE(reader.Next(&field));
  CHECK(field.value == 0x8000000000000001);
  CHECK_FALSE(reader.Next(&field));
  CHECK(reader.ok());
}

TEST_CASE("negative numbers are ten-byte varints") {
  const std::string bytes = Message().Int(5, -2).str();
  FieldReader reader(bytes);
  Field field;
  REQUIRE(reader.Next(&field));
  CHECK(field.AsInt() == -2);
}

TEST_CASE("malformed fields are errors with a place") {
  CHECK(ErrorOf("\x80") == "truncated varint at byte 1");
  CHECK(ErrorOf("\x08") == "truncated varint at byte 1");
  CHECK(ErrorOf(std::string("\x0a\x05"
                            "ab",
                            4)) == "field longer than its message at byte 2");
  CHECK(ErrorOf("\x0d\x01") == "truncated fixed-size field at byte 1");
  CHECK(ErrorOf("\x0b") == "group or unknown wire type at byte 1");
  CHECK(ErrorOf("\x0f") == "group or unknown wire type at byte 1");
  CHECK(ErrorOf(std::string("\x00\x01", 2)) == "invalid field number at byte 1");
  CHECK(ErrorOf("\x08" + std::string(10, '\xff') + "\x01").find("varint of more than") == 0);
  CHECK(ErrorOf("\x0a" + std::string(9, '\xff') + "\x01") == "field longer than its message at byte 11");
  CHECK(ErrorOf("").empty());
}

TEST_CASE("repeated numbers are read packed and loose") {
  const std::string bytes = Message().Ints(3, {1, 300, -1}).Int(3, 7).str();
  FieldReader reader(bytes);
  std::vector<int64_t> values;
  for (Field field; reader.Next(&field);) {
    CHECK(AppendRepeatedInts(field, &values));
  }
  CHECK(values == std::vector<int64_t>{1, 300, -1, 7});
  Field truncated;
  truncated.type = WireType::kBytes;
  truncated.bytes = "\x80";
  CHECK_FALSE(AppendRepeatedInts(truncated, &values));
}

TEST_CASE("written bytes equal those of another encoder") {
  std::string out;
  WriteIntField(77, -5, &out);
  WriteBytesField(2, std::string(200, 'x'), &out);
  CHECK(out == Message().Int(77, -5).Bytes(2, std::string(200, 'x')).str());
  CHECK(VarintSize(127) == 1);
  CHECK(VarintSize(128) == 2);
  CHECK(VarintSize(UINT64_MAX) == 10);
}

}  // namespace
}  // namespace xla_shmem::hlo
