// libcublas.so.13: the products of matrices that XLA asks cuBLAS for. They run as kernels of the handle's stream.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>

#include "libraries/cublas_numbers.h"
#include "libraries/matrix_elements.h"
#include "libraries/matrix_product.h"

namespace cublas {
namespace {

constexpr int kVersion = 130200;

struct Handle {
  void* stream = nullptr;
  int math_mode = kDefaultMath;
  int pointer_mode = kHostPointers;
  int atomics_mode = 0;
};

std::mutex& Mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::set<const Handle*>& Handles() {
  static auto* handles = new std::set<const Handle*>;
  return *handles;
}
bool IsLive(const Handle* handle) {
  const std::lock_guard<std::mutex> lock(Mutex());
  return Handles().count(handle) != 0;
}

Matrix ColumnMajor(int type, int operation, int64_t rows, int64_t columns, int64_t leading_dimension,
                   int64_t batch_stride = 0) {
  Matrix matrix;
  matrix.type = type;
  matrix.rows = static_cast<uint64_t>(operation == kKeep ? rows : columns);
  matrix.columns = static_cast<uint64_t>(operation == kKeep ? columns : rows);
  matrix.leading_dimension = leading_dimension;
  matrix.batch_stride = batch_stride;
  return matrix;
}

int ScaleTypeOf(int compute, int output) {
  switch (compute) {
    case kCompute16F:
    case kCompute16FPedantic:
      return kFloat16;
    case kCompute32I:
    case kCompute32IPedantic:
      return kInt32;
    case kCompute64F:
    case kCompute64FPedantic:
      return output;
    default:
      return output == kComplex64 ? kComplex64 : kFloat32;
  }
}

// One call of the gemm family, in the names of BLAS.
struct Gemm {
  const char* call;
  int operation_a, operation_b;
  int64_t m, n, k;
  const void* alpha;
  const void *a, *b;
  void* c;
  int type_a, type_b, type_c;
  int64_t lda, ldb, ldc;
  const void* beta;
  int compute;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
  int32_t batches = 1;
  bool arrays_of_pointers = false;
};

Status Run(const Handle* handle, const Gemm& gemm) {
  if (!IsLive(handle)) return kNotInitialized;
  if (gemm.m < 0 || gemm.n < 0 || gemm.k < 0 || gemm.batches < 0) return kInvalidValue;
  if (gemm.alpha == nullptr || gemm.beta == nullptr) return kInvalidValue;
  if (gemm.m == 0 || gemm.n == 0 || gemm.batches == 0) return kSuccess;
  Product product;
  product.compute = gemm.compute;
  product.scale_type = ScaleTypeOf(gemm.compute, gemm.type_c);
  product.operation_a = gemm.operation_a;
  product.operation_b = gemm.operation_b;
  product.a = ColumnMajor(gemm.type_a, gemm.operation_a, gemm.m, gemm.k, gemm.lda, gemm.stride_a);
  product.b = ColumnMajor(gemm.type_b, gemm.operation_b, gemm.k, gemm.n, gemm.ldb, gemm.stride_b);
  product.c = product.d = ColumnMajor(gemm.type_c, kKeep, gemm.m, gemm.n, gemm.ldc, gemm.stride_c);
  product.batches = gemm.batches;
  product.arrays_of_pointers = gemm.arrays_of_pointers;
  product.pointer_a = static_cast<const char*>(gemm.a);
  product.pointer_b = static_cast<const char*>(gemm.b);
  product.pointer_c = product.pointer_d = static_cast<char*>(gemm.c);
  if (handle->pointer_mode == kDevicePointers) {
    product.scales_on_device = true;
    product.device_alpha = gemm.alpha;
    product.device_beta = gemm.beta;
  } else {
    memcpy(product.alpha, gemm.alpha, ScaleBytes(product.scale_type));
    memcpy(product.beta, gemm.beta, ScaleBytes(product.scale_type));
  }
  return Launch(product, gemm.call, handle->stream);
}

// cublasSgemm and its kind take the compute type from the handle's math mode.
int ComputeOfFloats(const Handle* handle) {
  return IsLive(handle) && handle->math_mode == kTF32Math ? kCompute32FFastTF32 : kCompute32F;
}

}  // namespace
}  // namespace cublas

using cublas::Gemm;
using cublas::Handle;
using cublas::Run;

extern "C" {

int cublasCreate_v2(Handle** handle) {
  if (handle == nullptr) return cublas::kInvalidValue;
  *handle = new Handle;
  const std::lock_guard<std::mutex> lock(cublas::Mutex());
  cublas::Handles().insert(*handle);
  return cublas::kSuccess;
}
int cublasDestroy_v2(Handle* handle) {
  const std::lock_guard<std::mutex> lock(cublas::Mutex());
  if (cublas::Handles().erase(handle) == 0) return cublas::kNotInitialized;
  delete handle;
  return cublas::kSuccess;
}
int cublasSetStream_v2(Handle* handle, void* stream) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  handle->stream = stream;
  return cublas::kSuccess;
}
int cublasGetStream_v2(Handle* handle, void** stream) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  *stream = handle->stream;
  return cublas::kSuccess;
}
int cublasGetVersion_v2(Handle* handle, int* version) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  *version = cublas::kVersion;
  return cublas::kSuccess;
}
int cublasSetMathMode(Handle* handle, int mode) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  if (mode != cublas::kDefaultMath && mode != cublas::kPedanticMath && mode != cublas::kTF32Math) {
    return cublas::kInvalidValue;
  }
  handle->math_mode = mode;
  return cublas::kSuccess;
}
int cublasGetMathMode(Handle* handle, int* mode) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  *mode = handle->math_mode;
  return cublas::kSuccess;
}
int cublasSetPointerMode_v2(Handle* handle, int mode) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  if (mode != cublas::kHostPointers && mode != cublas::kDevicePointers) return cublas::kInvalidValue;
  handle->pointer_mode = mode;
  return cublas::kSuccess;
}
int cublasGetPointerMode_v2(Handle* handle, int* mode) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  *mode = handle->pointer_mode;
  return cublas::kSuccess;
}
int cublasSetAtomicsMode(Handle* handle, int mode) {
  if (!cublas::IsLive(handle)) return cublas::kNotInitialized;
  handle->atomics_mode = mode;
  return cublas::kSuccess;
}
int cublasSetWorkspace_v2(Handle* handle, void*, size_t) {  // the products need none
  return cublas::IsLive(handle) ? cublas::kSuccess : cublas::kNotInitialized;
}
int cublasGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return cublas::kInvalidValue;
  const int parts[] = {cublas::kVersion / 10000, cublas::kVersion / 100 % 100, cublas::kVersion % 100};
  *value = parts[which];
  return cublas::kSuccess;
}
const char* cublasGetStatusName(int status) {
  switch (status) {
    case cublas::kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case cublas::kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case cublas::kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case cublas::kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case cublas::kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown cuBLAS status";
  }
}
const char* cublasGetStatusString(int status) { return cublasGetStatusName(status); }

int cublasSgemm_v2(Handle* handle, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a, int lda,
                   const float* b, int ldb, const float* beta, float* c, int ldc) {
  return Run(handle, Gemm{"cublasSgemm", op_a, op_b, m, n, k, alpha, a, b, c, cublas::kFloat32, cublas::kFloat32,
                          cublas::kFloat32, lda, ldb, ldc, beta, cublas::ComputeOfFloats(handle)});
}
int cublasDgemm_v2(Handle* handle, int op_a, int op_b, int m, int n, int k, const double* alpha, const double* a,
                   int lda, const double* b, int ldb, const double* beta, double* c, int ldc) {
  return Run(handle, Gemm{"cublasDgemm", op_a, op_b, m, n, k, alpha, a, b, c, cublas::kFloat64, cublas::kFloat64,
                          cublas::kFloat64, lda, ldb, ldc, beta, cublas::kCompute64F});
}
int cublasSgemmEx(Handle* handle, int op_a, int op_b, int m, int n, int k, const float* alpha, const void* a,
                  int type_a, int lda, const void* b, int type_b, int ldb, const float* beta, void* c, int type_c,
                  int ldc) {
  return Run(handle, Gemm{"cublasSgemmEx", op_a, op_b, m, n, k, alpha, a, b, c, type_a, type_b, type_c, lda, ldb, ldc,
                          beta, cublas::kCompute32F});
}
int cublasGemmEx(Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a, int type_a,
                 int lda, const void* b, int type_b, int ldb, const void* beta, void* c, int type_c, int ldc,
                 int compute, int) {
  return Run(handle, Gemm{"cublasGemmEx", op_a, op_b, m, n, k, alpha, a, b, c, type_a, type_b, type_c, lda, ldb, ldc,
                          beta, compute});
}
int cublasSgemmStridedBatched(Handle* handle, int op_a, int op_b, int m, int n, int k, const float* alpha,
                              const float* a, int lda, long long stride_a, const float* b, int ldb, long long stride_b,
                              const float* beta, float* c, int ldc, long long stride_c, int batches) {
  return Run(handle, Gemm{"cublasSgemmStridedBatched",
                          op_a,
                          op_b,
                          m,
                          n,
                          k,
                          alpha,
                          a,
                          b,
                          c,
                          cublas::kFloat32,
                          cublas::kFloat32,
                          cublas::kFloat32,
                          lda,
                          ldb,
                          ldc,
                          beta,
                          cublas::ComputeOfFloats(handle),
                          stride_a,
                          stride_b,
                          stride_c,
                          batches});
}
int cublasDgemmStridedBatched(Handle* handle, int op_a, int op_b, int m, int n, int k, const double* alpha,
                              const double* a, int lda, long long stride_a, const double* b, int ldb,
                              long long stride_b, const double* beta, double* c, int ldc, long long stride_c,
                              int batches) {
  return Run(handle, Gemm{"cublasDgemmStridedBatched",
                          op_a,
                          op_b,
                          m,
                          n,
                          k,
                          alpha,
                          a,
                          b,
                          c,
                          cublas::kFloat64,
                          cublas::kFloat64,
                          cublas::kFloat64,
                          lda,
                          ldb,
                          ldc,
                          beta,
                          cublas::kCompute64F,
                          stride_a,
                          stride_b,
                          stride_c,
                          batches});
}
int cublasGemmStridedBatchedEx(Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                               const void* a, int type_a, int lda, long long stride_a, const void* b, int type_b,
                               int ldb, long long stride_b, const void* beta, void* c, int type_c, int ldc,
                               long long stride_c, int batches, int compute, int) {
  return Run(handle, Gemm{"cublasGemmStridedBatchedEx",
                          op_a,
                          op_b,
                          m,
                          n,
                          k,
                          alpha,
                          a,
                          b,
                          c,
                          type_a,
                          type_b,
                          type_c,
                          lda,
                          ldb,
                          ldc,
                          beta,
                          compute,
                          stride_a,
                          stride_b,
                          stride_c,
                          batches});
}
int cublasGemmBatchedEx(Handle* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                        const void* const a[], int type_a, int lda, const void* const b[], int type_b, int ldb,
                        const void* beta, void* const c[], int type_c, int ldc, int batches, int compute, int) {
  return Run(handle, Gemm{"cublasGemmBatchedEx",
                          op_a,
                          op_b,
                          m,
                          n,
                          k,
                          alpha,
                          a,
                          b,
                          const_cast<void**>(c),
                          type_a,
                          type_b,
                          type_c,
                          lda,
                          ldb,
                          ldc,
                          beta,
                          compute,
                          0,
                          0,
                          0,
                          batches,
                          true});
}

}  // extern "C"
