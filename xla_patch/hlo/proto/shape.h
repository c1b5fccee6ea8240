#ifndef XLA_SHMEM_HLO_PROTO_SHAPE_H_
#define XLA_SHMEM_HLO_PROTO_SHAPE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla_patch/types/element_type.h"
#include "xla_patch/types/status.h"

namespace xla_shmem::hlo {

// A decoded xla.ShapeProto: the fields that the pass needs, and `proto`, the message itself.
struct Shape {
  std::string_view proto;
  ElementType element_type = ElementType::kInvalid;
  std::vector<int64_t> dimensions;
  std::vector<Shape> elements;  // of a tuple
  std::vector<int64_t> minor_to_major;
  int64_t element_size_in_bits = 0;  // 0: the type's own size; XLA:GPU packs types of less than a byte
  int64_t memory_space = 0;          // 5 is host memory on GPU (xla/service/host_offload_utils.h)
  bool is_dynamic = false;           // some dimension is only an upper bound
  bool is_tiled = false;             // tiled, split, sparse, packed or padded layout

  bool IsTuple() const;
  // The shape itself, or the elements of a tuple (one level: collectives have flat results).
  std::vector<const Shape*> Leaves() const;
};

// An error on malformed bytes and on nesting deeper than any real module has.
Result<Shape> ParseShape(std::string_view proto);

// Result bytes, tuple elements summed, as XLA counts them: elements of less than a byte are packed if the layout says
// so and take a byte each if not. Saturates instead of overflowing.
int64_t ShapeBytes(const Shape& shape);

// As in HLO text, without layout: "f32[8,1024]", "(f32[8], bf16[4])". A dynamic dimension is its upper bound.
std::string ShapeText(const Shape& shape);

// Same element type, dimensions and physical order: a byte copy from one to the other is right.
bool SameBytesLayout(const Shape& a, const Shape& b);

// The same, but for the size of the first dimension, along which both lie row after row in memory.
bool HaveEqualRows(const Shape& a, const Shape& b);

// Whether both are arrays, or tuples of as many, with the same bytes and layout in their order.
bool HaveSameLeaves(const Shape& a, const Shape& b);

// Whether `whole`, as it lies in memory, is `parts` arrays like `part` one after the other, where logically they follow
// one another along `dimension`.
bool IsMadeOfParts(const Shape& whole, const Shape& part, int64_t dimension, int64_t parts);
// The same, where the parts are what cutting `whole` evenly leaves.
bool IsMadeOfEqualParts(const Shape& whole, int64_t dimension, int64_t parts);

}  // namespace xla_shmem::hlo

#endif  // XLA_SHMEM_HLO_PROTO_SHAPE_H_
