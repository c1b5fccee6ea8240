// Values of cuBLAS's public enumerations that the double knows. Their headers are not part of the CUDA runtime's wheel,
// so the values stand here, as cuBLAS's documentation and interface give them.
#pragma once

#include <cstdint>

namespace cublas {

enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

enum Type : int {  // cudaDataType
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kInt8 = 3,
  kComplex64 = 4,
  kComplex128 = 5,
  kInt32 = 10,
  kBFloat16 = 14,
};

enum Compute : int {  // cublasComputeType_t
  kCompute16F = 64,
  kCompute16FPedantic = 65,
  kCompute32F = 68,
  kCompute32FPedantic = 69,
  kCompute64F = 70,
  kCompute64FPedantic = 71,
  kCompute32I = 72,
  kCompute32IPedantic = 73,
  kCompute32FFast16F = 74,
  kCompute32FFast16BF = 75,
  kCompute32FFastTF32 = 77,
};

enum Operation : int { kKeep = 0, kTranspose = 1, kConjugateTranspose = 2 };

enum PointerMode : int { kHostPointers = 0, kDevicePointers = 1 };

enum MathMode : int { kDefaultMath = 0, kPedanticMath = 2, kTF32Math = 3 };

enum Order : int { kColumnMajor = 0, kRowMajor = 1 };

}  // namespace cublas
