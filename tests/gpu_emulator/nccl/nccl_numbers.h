// Values of NCCL's public enumerations that the double knows. Its header is not part of the CUDA plugin's wheels, so
// the values stand here, as NCCL's documentation gives them.
#pragma once

#include <cstddef>

namespace emulator::nccl {

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
};

enum Type : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4M3 = 10,
  kFloat8E5M2 = 11,
};

enum Reduction : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3 };

// Bytes of an element, 0 if NCCL has no such type.
constexpr size_t BytesOf(int type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type < 0 || type > kFloat8E5M2 ? 0 : kBytes[type];
}

}  // namespace emulator::nccl
