#include "xla_patch/hlo/proto/shape.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {
namespace {

// Deeper than any shape XLA builds, shallow enough for every stack.
constexpr int kMaxNesting = 32;
// In all tuples of a shape. Each takes a hundred times the memory of its two bytes in a proto.
constexpr int kMaxElements = 1 << 18;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Of numbers that are not negative.
int64_t SaturatingProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMax : product;
}

Status ParseLayout(std::string_view proto, Shape* shape) {
  FieldReader reader(proto);
  bool well_formed = true;
  for (Field field; reader.Next(&field);) {
    switch (field.number) {
      case LayoutField::kMinorToMajor:
        well_formed = AppendRepeatedInts(field, &shape->minor_to_major) && well_formed;
        break;
      case LayoutField::kMemorySpace:
        shape->memory_space = field.AsInt();
        break;
      case LayoutField::kElementSizeInBits:
        shape->element_size_in_bits = field.AsInt();
        shape->is_tiled = shape->is_tiled || field.value != 0;
        break;
      case LayoutField::kTiles:
      case LayoutField::kPhysicalShape:
      case LayoutField::kDynamicShapeMetadataPrefixBytes:
      case LayoutField::kSplitConfigs:
        shape->is_tiled = shape->is_tiled || !field.bytes.empty() || field.value != 0;
        break;
      case LayoutField::kTailPaddingAlignmentInElements:
        shape->is_tiled = shape->is_tiled || field.value > 1;
        break;
      default:
        break;
    }
  }
  if (!reader.ok() || !well_formed) {
    return Status::Error("layout: " + (reader.ok() ? std::string("bad packed list") : reader.error()));
  }
  return Status();
}

// `elements`: that may still come.
Status ParseNested(std::string_view proto, int depth, int* elements, Shape* shape) {
  if (depth > kMaxNesting) return Status::Error("shape nested more than " + std::to_string(kMaxNesting) + " deep");
  shape->proto = proto;
  FieldReader reader(proto);
  bool well_formed = true;
  std::vector<int64_t> dynamic;
  for (Field field; reader.Next(&field);) {
    switch (field.number) {
      case ShapeField::kElementType:
        shape->element_type = static_cast<ElementType>(static_cast<int32_t>(field.value));
        break;
      case ShapeField::kDimensions:
        well_formed = AppendRepeatedInts(field, &shape->dimensions) && well_formed;
        break;
      case ShapeField::kIsDynamicDimension:
        well_formed = AppendRepeatedInts(field, &dynamic) && well_formed;
        break;
      case ShapeField::kTupleShapes:
        shape->elements.emplace_back();
        if (field.type != WireType::kBytes) return Status::Error("shape: wrong wire type");
        if (--*elements < 0) {
          return Status::Error("shape: its tuples have more than " + std::to_string(kMaxElements) + " elements");
        }
        XLA_SHMEM_RETURN_IF_ERROR(ParseNested(field.bytes, depth + 1, elements, &shape->elements.back()));
        break;
      case ShapeField::kLayout:
        XLA_SHMEM_RETURN_IF_ERROR(ParseLayout(field.bytes, shape));
        break;
      default:
        break;
    }
  }
  for (const int64_t is_dynamic : dynamic) shape->is_dynamic = shape->is_dynamic || is_dynamic != 0;
  if (!reader.ok() || !well_formed) {
    return Status::Error("shape: " + (reader.ok() ? std::string("bad packed list") : reader.error()));
  }
  return Status();
}

// Dimensions from major to minor (row-major without a layout, as XLA has it), without those of size 1, whose place in a
// layout means nothing, and without `left_out`.
std::vector<int64_t> PhysicalOrder(const Shape& shape, int64_t left_out) {
  const auto rank = static_cast<int64_t>(shape.dimensions.size());
  std::vector<int64_t> order(shape.minor_to_major.rbegin(), shape.minor_to_major.rend());
  if (order.empty()) {
    order.resize(rank);
    std::iota(order.begin(), order.end(), 0);
  }
  const auto is_left_out = [&](int64_t dimension) {
    return dimension < 0 || dimension >= rank || dimension == left_out || shape.dimensions[dimension] == 1;
  };
  order.erase(std::remove_if(order.begin(), order.end(), is_left_out), order.end());
  return order;
}

bool HasDimension(const Shape& shape, int64_t dimension) {
  return dimension >= 0 && dimension < static_cast<int64_t>(shape.dimensions.size());
}

bool IsMajorMost(const Shape& shape, int64_t dimension) {
  const std::vector<int64_t> order = PhysicalOrder(shape, -1);
  return shape.dimensions[dimension] == 1 || (!order.empty() && order[0] == dimension);
}

}  // namespace

bool Shape::IsTuple() const { return element_type == ElementType::kTuple; }

std::vector<const Shape*> Shape::Leaves() const {
  if (!IsTuple()) return {this};
  std::vector<const Shape*> leaves;
  leaves.reserve(elements.size());
  for (const Shape& element : elements) leaves.push_back(&element);
  return leaves;
}

Result<Shape> ParseShape(std::string_view proto) {
  Shape shape;
  int elements = kMaxElements;
  XLA_SHMEM_RETURN_IF_ERROR(ParseNested(proto, 0, &elements, &shape));
  return shape;
}

int64_t ShapeBytes(const Shape& shape) {
  int64_t total = 0;
  if (shape.IsTuple()) {
    for (const Shape& element : shape.elements) {
      if (__builtin_add_overflow(total, ShapeBytes(element), &total)) return kMax;
    }
    return total;
  }
  int64_t count = 1;
  for (const int64_t dimension : shape.dimensions) {
    if (dimension <= 0) return 0;
    count = SaturatingProduct(count, dimension);
  }
  const int64_t packed_bits = shape.element_size_in_bits;
  if (packed_bits <= 0) return SaturatingProduct(count, static_cast<int64_t>(ElementBytes(shape.element_type)));
  // Eight elements make packed_bits bytes; a last few that do not fill eight are rounded up to whole bytes.
  const int64_t whole = SaturatingProduct(count / 8, packed_bits);
  const int64_t rest = SaturatingProduct(count % 8, packed_bits);
  const int64_t rest_bytes = rest / 8 + (rest % 8 != 0 ? 1 : 0);
  return __builtin_add_overflow(whole, rest_bytes, &total) ? kMax : total;
}

std::string ShapeText(const Shape& shape) {
  std::string text;
  if (shape.IsTuple()) {
    for (const Shape& element : shape.elements) text += (text.empty() ? "" : ", ") + ShapeText(element);
    return "(" + text + ")";
  }
  for (const int64_t size : shape.dimensions) text += (text.empty() ? "" : ",") + std::to_string(size);
  return ElementTypeName(shape.element_type) + "[" + text + "]";
}

bool SameBytesLayout(const Shape& a, const Shape& b) {
  return a.element_type == b.element_type && a.dimensions == b.dimensions && a.minor_to_major == b.minor_to_major &&
         !a.is_tiled && !b.is_tiled && !a.IsTuple() && !b.IsTuple();
}

bool HaveEqualRows(const Shape& a, const Shape& b) {
  if (!HasDimension(a, 0) || !HasDimension(b, 0) || !IsMajorMost(a, 0) || !IsMajorMost(b, 0)) return false;
  Shape like_a = b;
  like_a.dimensions[0] = a.dimensions[0];
  return SameBytesLayout(a, like_a);
}

bool HaveSameLeaves(const Shape& a, const Shape& b) {
  const std::vector<const Shape*> left = a.Leaves();
  const std::vector<const Shape*> right = b.Leaves();
  return a.IsTuple() == b.IsTuple() &&
         std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Shape* x, const Shape* y) { return SameBytesLayout(*x, *y); });
}

bool IsMadeOfParts(const Shape& whole, const Shape& part, int64_t dimension, int64_t parts) {
  if (whole.IsTuple() || part.IsTuple() || whole.is_tiled || part.is_tiled || whole.element_size_in_bits != 0 ||
      part.element_size_in_bits != 0 || whole.element_type != part.element_type || parts < 1 ||
      !HasDimension(part, dimension)) {
    return false;
  }
  std::vector<int64_t> dimensions = part.dimensions;
  if (__builtin_mul_overflow(dimensions[dimension], parts, &dimensions[dimension]) || dimensions != whole.dimensions) {
    return false;
  }
  if (parts == 1) return PhysicalOrder(whole, -1) == PhysicalOrder(part, -1);
  return IsMajorMost(whole, dimension) && IsMajorMost(part, dimension) &&
         PhysicalOrder(whole, dimension) == PhysicalOrder(part, dimension);
}

bool IsMadeOfEqualParts(const Shape& whole, int64_t dimension, int64_t parts) {
  if (parts < 1 || !HasDimension(whole, dimension)) return false;
  Shape part = whole;
  part.dimensions[dimension] /= parts;
  return IsMadeOfParts(whole, part, dimension, parts);
}

}  // namespace xla_shmem::hlo
