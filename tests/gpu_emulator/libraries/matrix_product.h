// Products of matrices as cuBLAS documents them: D = epilogue(alpha op(A) op(B) + beta C).
#pragma once

#include <cstddef>
#include <cstdint>

#include "libraries/cublas_numbers.h"

namespace cublas {

// A matrix in memory, or a batch of them.
struct Matrix {
  int type = kFloat32;
  int order = kColumnMajor;
  uint64_t rows = 0, columns = 0;
  int64_t leading_dimension = 0;
  int64_t batch_stride = 0;  // elements
};

enum Activation : int { kNoActivation, kRelu, kGelu };

// All that a product needs when its stream runs it. Copied with memcpy.
struct Product {
  int compute = kCompute32F;
  int scale_type = kFloat32;
  int operation_a = kKeep, operation_b = kKeep;
  Matrix a, b, c, d;
  int32_t batches = 1;
  const char* pointer_a = nullptr;
  const char* pointer_b = nullptr;
  const char* pointer_c = nullptr;  // null with a beta of zero
  char* pointer_d = nullptr;
  bool arrays_of_pointers = false;  // the four pointers are arrays in device memory, one entry for each of the batch

  bool scales_on_device = false;  // then read when the stream comes here
  const void* device_alpha = nullptr;
  const void* device_beta = nullptr;
  char alpha[16] = {};
  char beta[16] = {};

  Activation activation = kNoActivation;
  const char* bias = nullptr;  // one element for each row of D, of `bias_type`
  int bias_type = kFloat32;
  int64_t bias_batch_stride = 0;
  char* auxiliary = nullptr;  // what went into the activation, of D's type
  int64_t auxiliary_leading_dimension = 0;
  int64_t auxiliary_batch_stride = 0;
};

// Bytes of alpha and of beta.
size_t ScaleBytes(int scale_type);

// kSuccess, or the status with a sentence on stderr: kInvalidValue for what cuBLAS refuses as well, kNotSupported for
// what only the double lacks.
Status Check(const Product& product, const char* call);

// Reads and writes memory: for the thread of a stream.
void Multiply(const Product& product);

// Enqueues the product as a kernel.
Status Launch(const Product& product, const char* call, void* stream);

}  // namespace cublas
