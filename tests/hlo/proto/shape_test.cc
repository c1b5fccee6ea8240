#include "xla_patch/hlo/proto/shape.h"

#include <doctest/doctest.h>

#include "tests/hlo/hlo_builder.h"

namespace xla_shmem::hlo {
namespace {

using test::ArrayShape;
using test::Message;
using test::TupleShape;

Shape Parse(const Message& message) {
  Result<Shape> shape = ParseShape(message.str());
  REQUIRE_MESSAGE(shape.ok(), shape.message());
  shape->proto = {};
  return *std::move(shape);
}

TEST_CASE("bytes of arrays, scalars, tuples and empty arrays") {
  CHECK(ShapeBytes(Parse(ArrayShape({8, 16}))) == 512);
  CHECK(ShapeBytes(Parse(ArrayShape({}))) == 4);
  CHECK(ShapeBytes(Parse(ArrayShape({8, 0, 1 << 30}))) == 0);
  CHECK(ShapeBytes(Parse(TupleShape({ArrayShape({2}), ArrayShape({3}, 16)}))) == 14);
  CHECK(ShapeBytes(Parse(ArrayShape({}, 17))) == 0);
}

TEST_CASE("the text of a shape is that of HLO") {
  CHECK(ShapeText(Parse(ArrayShape({8, 16}))) == "f32[8,16]");
  CHECK(ShapeText(Parse(ArrayShape({}))) == "f32[]");
  CHECK(ShapeText(Parse(TupleShape({ArrayShape({2}), ArrayShape({3, 0}, 16)}))) == "(f32[2], bf16[3,0])");
}

Shape Laid(const std::vector<int64_t>& dims, const std::vector<int64_t>& minor_to_major) {
  return Parse(Message().Int(2, 11).Ints(3, dims).Sub(5, Message().Ints(1, minor_to_major)));
}

TEST_CASE("arrays one after the other make a larger one where they follow one another along its major dimension") {
  CHECK(IsMadeOfParts(Laid({6, 4}, {1, 0}), Laid({2, 4}, {1, 0}), 0, 3));
  CHECK(IsMadeOfParts(Laid({4, 6}, {0, 1}), Laid({4, 2}, {0, 1}), 1, 3));
  CHECK_FALSE(IsMadeOfParts(Laid({4, 6}, {1, 0}), Laid({4, 2}, {1, 0}), 1, 3));
  CHECK_FALSE(IsMadeOfParts(Laid({6, 4}, {1, 0}), Laid({2, 4}, {0, 1}), 0, 3));
  CHECK_FALSE(IsMadeOfParts(Laid({6, 4}, {1, 0}), Laid({2, 4}, {1, 0}), 0, 2));
  CHECK_FALSE(IsMadeOfParts(Laid({6, 4, 5}, {1, 2, 0}), Laid({2, 4, 5}, {2, 1, 0}), 0, 3));
  // one part is the whole, in whatever order
  CHECK(IsMadeOfParts(Laid({6, 4}, {1, 0}), Laid({6, 4}, {1, 0}), 1, 1));
  CHECK_FALSE(IsMadeOfParts(Laid({6, 4}, {1, 0}), Laid({6, 4}, {0, 1}), 1, 1));
}

TEST_CASE("dimensions of size 1 may stand anywhere in a layout, and no layout is row-major") {
  CHECK(IsMadeOfParts(Laid({4, 3, 5}, {2, 0, 1}), Laid({4, 1, 5}, {2, 1, 0}), 1, 3));
  CHECK(IsMadeOfParts(Laid({1, 3, 1}, {0, 1, 2}), Laid({1, 1, 1}, {2, 1, 0}), 1, 3));
  CHECK(IsMadeOfParts(Laid({6, 4}, {1, 0}), Parse(Message().Int(2, 11).Ints(3, {2, 4})), 0, 3));
}

TEST_CASE("an array is cut into equal parts along its major dimension only") {
  CHECK(IsMadeOfEqualParts(Laid({6, 4}, {1, 0}), 0, 3));
  CHECK(IsMadeOfEqualParts(Laid({6, 4}, {1, 0}), 1, 1));
  CHECK_FALSE(IsMadeOfEqualParts(Laid({6, 4}, {1, 0}), 1, 2));
  CHECK_FALSE(IsMadeOfEqualParts(Laid({6, 4}, {1, 0}), 0, 4));
  for (const int64_t dimension : {-1, 2}) {
    CHECK_FALSE(IsMadeOfEqualParts(Laid({6, 4}, {1, 0}), dimension, 2));
  }
  CHECK_FALSE(IsMadeOfEqualParts(Laid({6, 4}, {1, 0}), 0, 0));
}

TEST_CASE("elements of less than a byte are packed only if the layout says so") {
  constexpr int32_t kS4 = 21;
  const auto packed = [](int64_t count, int64_t bits) {
    return ShapeBytes(Parse(Message().Int(2, kS4).Ints(3, {count}).Sub(5, Message().Ints(1, {0}).Int(7, bits))));
  };
  CHECK(ShapeBytes(Parse(ArrayShape({5}, kS4))) == 5);
  CHECK(packed(5, 0) == 5);
  CHECK(packed(4, 4) == 2);
  CHECK(packed(5, 4) == 3);
  CHECK(packed(8, 4) == 4);
  CHECK(packed(9, 4) == 5);
  CHECK(packed(5, -4) == 5);
  CHECK(packed(9, INT64_MAX) == INT64_MAX);
  CHECK(packed(INT64_MAX, 4) == INT64_MAX / 2 + 1);
}

TEST_CASE("absurd sizes saturate") {
  const int64_t big = int64_t{1} << 40;
  CHECK(ShapeBytes(Parse(ArrayShape({big, big}))) == INT64_MAX);
  CHECK(ShapeBytes(Parse(TupleShape({ArrayShape({big, big}), ArrayShape({big, big})}))) == INT64_MAX);
}

TEST_CASE("nesting beyond the limit is an error, not a stack overflow") {
  Message shape = ArrayShape({1});
  for (int i = 0; i < 10000; ++i) {
    shape = TupleShape({shape});
  }
  CHECK(ParseShape(shape.str()).message() == "shape nested more than 32 deep");
}

TEST_CASE("tuples with more elements than any program has are an error, not gigabytes") {
  const auto tuple_of = [](int elements) {
    std::string proto;
    for (int i = 0; i < elements; ++i) proto += std::string("\x22\x00", 2);  // an empty shape as tuple element
    return ParseShape(proto);
  };
  CHECK(tuple_of(100000).ok());
  CHECK(tuple_of(300000).message() == "shape: its tuples have more than 262144 elements");
}

TEST_CASE("a byte copy needs the same type, dimensions and order") {
  const Shape row_major = Parse(ArrayShape({2, 3}));
  CHECK(SameBytesLayout(row_major, Parse(ArrayShape({2, 3}))));
  CHECK_FALSE(SameBytesLayout(row_major, Parse(ArrayShape({3, 2}))));
  CHECK_FALSE(SameBytesLayout(row_major, Parse(ArrayShape({2, 3}, 8))));
  const Message column_major = Message().Int(2, 11).Ints(3, {2, 3}).Sub(5, Message().Ints(1, {0, 1}));
  CHECK_FALSE(SameBytesLayout(row_major, Parse(column_major)));
  const Message tiled =
      Message().Int(2, 11).Ints(3, {2, 3}).Sub(5, Message().Ints(1, {1, 0}).Sub(6, Message().Ints(1, {8})));
  CHECK_FALSE(SameBytesLayout(Parse(tiled), Parse(tiled)));
}

TEST_CASE("dynamic dimensions and host memory are seen") {
  CHECK(Parse(Message().Int(2, 11).Ints(3, {4}).Ints(6, {1})).is_dynamic);
  CHECK_FALSE(Parse(Message().Int(2, 11).Ints(3, {4}).Ints(6, {0})).is_dynamic);
  CHECK(Parse(Message().Int(2, 11).Sub(5, Message().Int(8, 5))).memory_space == 5);
}

}  // namespace
}  // namespace xla_shmem::hlo
