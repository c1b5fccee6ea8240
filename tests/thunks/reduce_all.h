#ifndef XLA_SHMEM_TESTS_THUNKS_REDUCE_ALL_H_
#define XLA_SHMEM_TESTS_THUNKS_REDUCE_ALL_H_

#include <vector>

#include "xla_patch/thunks/reduction.h"

namespace xla_shmem {

// Reduce over whole vectors, in their order.
template <typename T>
std::vector<T> ReduceAll(ElementType type, ReductionKind kind, const std::vector<std::vector<T>>& inputs) {
  std::vector<const char*> pointers;
  for (const auto& input : inputs) pointers.push_back(reinterpret_cast<const char*>(input.data()));
  std::vector<T> output(inputs[0].size());
  Reduce(type, kind, pointers.data(), pointers.size(), output.size(), reinterpret_cast<char*>(output.data()));
  return output;
}

}  // namespace xla_shmem

#endif  // XLA_SHMEM_TESTS_THUNKS_REDUCE_ALL_H_
