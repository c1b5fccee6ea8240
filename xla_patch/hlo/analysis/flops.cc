#include "xla_patch/hlo/analysis/flops.h"

#include "xla_patch/hlo/proto/field_numbers.h"
#include "xla_patch/hlo/proto/module_reader.h"
#include "xla_patch/hlo/proto/wire.h"

namespace xla_shmem::hlo {

int64_t CountElements(const Shape& shape) {
  const std::vector<const Shape*> leaves = shape.Leaves();
  int64_t elements = leaves.empty() || leaves[0]->IsTuple() ? 0 : 1;
  for (size_t i = 0; elements != 0 && i < leaves[0]->dimensions.size(); ++i) {
    elements = Product(elements, leaves[0]->dimensions[i]);
  }
  return elements;
}

std::vector<int64_t> ContractedDimensions(std::string_view dot_numbers) {
  std::vector<int64_t> contracted;
  FieldReader reader(dot_numbers);
  for (Field field; reader.Next(&field);) {
    if (field.number == DotDimensionNumbersField::kLhsContractingDimensions) AppendRepeatedInts(field, &contracted);
  }
  return contracted;
}

int64_t DotFlops(int64_t result_elements, const Shape& left, const std::vector<int64_t>& contracted) {
  int64_t flops = Product(2, result_elements);
  for (const int64_t dimension : contracted) {
    const bool exists = dimension >= 0 && dimension < static_cast<int64_t>(left.dimensions.size());
    flops = Product(flops, exists ? left.dimensions[dimension] : -1);
  }
  return flops;
}

int64_t ConvolutionFlops(int64_t result_elements, const Shape& kernel, std::string_view numbers) {
  int64_t output_features = 0;  // kernel_output_feature_dimension
  FieldReader reader(numbers);
  for (Field field; reader.Next(&field);) {
    output_features = field.number == ConvolutionDimensionNumbersField::kKernelOutputFeatureDimension ? field.AsInt()
                                                                                                      : output_features;
  }
  int64_t flops = Product(2, result_elements);
  for (size_t i = 0; i < kernel.dimensions.size(); ++i) {
    flops = static_cast<int64_t>(i) == output_features ? flops : Product(flops, kernel.dimensions[i]);
  }
  const bool exists = output_features >= 0 && output_features < static_cast<int64_t>(kernel.dimensions.size());
  return exists ? flops : -1;
}

int64_t AttentionFlops(const FusedAttention& attention, int64_t head, bool is_backward) {
  int64_t flops = Product(is_backward ? 10 : 4, head);
  for (const int64_t dimension : attention.scores) flops = Product(flops, dimension);
  return attention.is_causal && flops > 0 ? flops / 2 : flops;
}

int64_t WindowElements(std::string_view window) {
  int64_t elements = 1;
  FieldReader reader(window);
  for (Field field; reader.Next(&field);) {
    if (field.number != WindowField::kDimensions) continue;
    int64_t size = 0;
    FieldReader dimension(field.bytes);
    for (Field inner; dimension.Next(&inner);) {
      size = inner.number == WindowDimensionField::kSize ? inner.AsInt() : size;
    }
    elements = Product(elements, size);
  }
  return elements;
}

}  // namespace xla_shmem::hlo
