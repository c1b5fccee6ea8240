#include "libraries/matrix_product.h"

#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>
#include <vector>

#include "driver/device_view.h"
#include "driver/log.h"
#include "driver/named_kernels.h"
#include "libraries/matrix_elements.h"

namespace cublas {
namespace {

using emulator::DeviceView;

// Columns of C that share one pass over a block of A, and rows of such a block: 4 KiB of floats stay in the cache.
constexpr uint64_t kColumnsAtOnce = 4;
constexpr uint64_t kRowsAtOnce = 1024;

template <typename T>
constexpr bool kIsComplex = false;
template <typename T>
constexpr bool kIsComplex<std::complex<T>> = true;

template <typename T>
T Load(const char* at, int type) {
  if constexpr (kIsComplex<T>) {
    return Read<T>(at);
  } else {
    return LoadReal<T>(at, type);
  }
}
template <typename T>
void Store(char* at, int type, T value) {
  if constexpr (kIsComplex<T>) {
    memcpy(at, &value, sizeof(value));
  } else {
    StoreReal(at, type, value);
  }
}

uint64_t Offset(const Matrix& matrix, uint64_t row, uint64_t column) {
  const auto stride = static_cast<uint64_t>(matrix.leading_dimension);
  return matrix.order == kRowMajor ? row * stride + column : column * stride + row;
}

// Operands of the fast compute types are rounded, as tensor cores do. GPU_EMULATOR_TF32=0 leaves them whole.
template <typename T>
T Operand(T value, int compute) {
  if constexpr (std::is_same_v<T, std::complex<float>>) {
    return {Operand(value.real(), compute), Operand(value.imag(), compute)};
  } else if constexpr (std::is_same_v<T, float>) {
    switch (compute) {
      case kCompute32FFastTF32: {
        static const bool rounds = getenv("GPU_EMULATOR_TF32") == nullptr || atoi(getenv("GPU_EMULATOR_TF32")) != 0;
        return rounds ? RoundedToTF32(value) : value;
      }
      case kCompute32FFast16BF:
        return RoundedToBFloat16(value);
      case kCompute32FFast16F:
        return static_cast<float>(static_cast<_Float16>(value));
      default:
        return value;
    }
  } else {
    return value;
  }
}

// op(matrix), packed by columns.
template <typename T>
std::vector<T> Packed(const char* base, const Matrix& matrix, int operation, uint64_t rows, uint64_t columns,
                      int compute) {
  std::vector<T> packed(rows * columns);
  const size_t bytes = BytesOf(matrix.type);
  const bool swapped = operation != kKeep;
  for (uint64_t column = 0; column < columns; ++column) {
    for (uint64_t row = 0; row < rows; ++row) {
      const uint64_t at = swapped ? Offset(matrix, column, row) : Offset(matrix, row, column);
      T value = Load<T>(base + at * bytes, matrix.type);
      if constexpr (kIsComplex<T>) {
        if (operation == kConjugateTranspose) value = std::conj(value);
      }
      packed[column * rows + row] = Operand(value, compute);
    }
  }
  return packed;
}

// sums[n][m] += a[k][m] * b[n][k]: sums over k in order, in T.
template <typename T>
void Accumulate(const std::vector<T>& a, const std::vector<T>& b, uint64_t m, uint64_t n, uint64_t k, T* sums) {
  for (uint64_t first_row = 0; first_row < m; first_row += kRowsAtOnce) {
    const uint64_t rows = std::min(kRowsAtOnce, m - first_row);
    for (uint64_t first = 0; first < n; first += kColumnsAtOnce) {
      const uint64_t columns = std::min(kColumnsAtOnce, n - first);
      for (uint64_t p = 0; p < k; ++p) {
        const T* left = &a[p * m + first_row];
        for (uint64_t j = first; j < first + columns; ++j) {
          const T right = b[j * k + p];
          T* sum = sums + j * m + first_row;
          for (uint64_t i = 0; i < rows; ++i) sum[i] += left[i] * right;
        }
      }
    }
  }
}

template <typename T>
T Activated(T value, Activation activation) {
  if constexpr (!kIsComplex<T>) {
    if (activation == kRelu) return value > T(0) || value != value ? value : T(0);
    if (activation == kGelu) {  // the approximation with tanh, as cuBLASLt documents
      const double x = static_cast<double>(value);
      return static_cast<T>(0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))));
    }
  }
  return value;
}

template <typename T>
void MultiplyOne(const Product& product, int32_t batch, T alpha, T beta) {
  const uint64_t m = product.d.rows, n = product.d.columns;
  const uint64_t k = product.operation_a == kKeep ? product.a.columns : product.a.rows;
  const auto base = [&](auto pointer, const Matrix& matrix) {
    if (product.arrays_of_pointers) {
      decltype(pointer) entry = nullptr;
      memcpy(&entry, DeviceView(pointer + static_cast<size_t>(batch) * sizeof(entry)), sizeof(entry));
      return DeviceView(entry);
    }
    const int64_t bytes = batch * matrix.batch_stride * static_cast<int64_t>(BytesOf(matrix.type));
    return DeviceView(pointer + bytes);
  };
  const char* bias = DeviceView(product.bias);
  char* auxiliary = DeviceView(product.auxiliary);
  const std::vector<T> a =
      Packed<T>(base(product.pointer_a, product.a), product.a, product.operation_a, m, k, product.compute);
  const std::vector<T> b =
      Packed<T>(base(product.pointer_b, product.b), product.b, product.operation_b, k, n, product.compute);
  std::vector<T> sums(m * n);
  Accumulate(a, b, m, n, k, sums.data());

  const char* c = product.pointer_c == nullptr ? nullptr : base(product.pointer_c, product.c);
  char* d = base(product.pointer_d, product.d);
  const size_t c_bytes = BytesOf(product.c.type), d_bytes = BytesOf(product.d.type);
  for (uint64_t column = 0; column < n; ++column) {
    for (uint64_t row = 0; row < m; ++row) {
      T value = alpha * sums[column * m + row];
      // A beta of zero does not read C, which may hold anything.
      if (beta != T(0)) value += beta * Load<T>(c + Offset(product.c, row, column) * c_bytes, product.c.type);
      if (bias != nullptr) {
        const int64_t at = batch * product.bias_batch_stride + static_cast<int64_t>(row);
        value += Load<T>(bias + at * static_cast<int64_t>(BytesOf(product.bias_type)), product.bias_type);
      }
      if (auxiliary != nullptr) {
        const int64_t at = batch * product.auxiliary_batch_stride +
                           static_cast<int64_t>(column) * product.auxiliary_leading_dimension +
                           static_cast<int64_t>(row);
        Store(auxiliary + at * static_cast<int64_t>(d_bytes), product.d.type, value);
      }
      Store(d + Offset(product.d, row, column) * d_bytes, product.d.type, Activated(value, product.activation));
    }
  }
}

template <typename T>
void MultiplyAll(const Product& product) {
  const auto scale = [&](const char* host, const void* device) {
    return Load<T>(product.scales_on_device ? static_cast<const char*>(DeviceView(device)) : host, product.scale_type);
  };
  const T alpha = scale(product.alpha, product.device_alpha);
  const T beta = scale(product.beta, product.device_beta);
  for (int32_t batch = 0; batch < product.batches; ++batch) MultiplyOne<T>(product, batch, alpha, beta);
}

// What cuBLAS's table of supported types allows, without eight-bit floats and planar layouts.
bool TypesAreSupported(const Product& p) {
  const int input = p.a.type, output = p.d.type;
  if (p.b.type != input || p.c.type != output) return false;
  switch (p.compute) {
    case kCompute16F:
    case kCompute16FPedantic:
      return p.scale_type == kFloat16 && input == kFloat16 && output == kFloat16;
    case kCompute32I:
    case kCompute32IPedantic:
      return p.scale_type == kInt32 && input == kInt8 && output == kInt32;
    case kCompute64F:
    case kCompute64FPedantic:
      return (input == kFloat64 || input == kComplex128) && output == input && p.scale_type == input;
    case kCompute32FFast16F:
    case kCompute32FFast16BF:
    case kCompute32FFastTF32:
      return (input == kFloat32 || input == kComplex64) && output == input && p.scale_type == input;
    case kCompute32F:
    case kCompute32FPedantic:
      if (input == kComplex64) return output == kComplex64 && p.scale_type == kComplex64;
      if (p.scale_type != kFloat32) return false;
      if (input == kFloat32 || input == kInt8) return output == kFloat32;
      return (input == kFloat16 || input == kBFloat16) && (output == input || output == kFloat32);
    default:
      return false;
  }
}

bool LeadingDimensionHolds(const Matrix& matrix) {
  const uint64_t least = matrix.order == kRowMajor ? matrix.columns : matrix.rows;
  return matrix.leading_dimension > 0 && static_cast<uint64_t>(matrix.leading_dimension) >= least;
}

bool IsAligned(const void* pointer, const Matrix& matrix) {
  return reinterpret_cast<uintptr_t>(pointer) % BytesOf(matrix.type) == 0;
}

bool SameLayout(const Matrix& x, const Matrix& y) {
  return x.type == y.type && x.order == y.order && x.leading_dimension == y.leading_dimension &&
         x.batch_stride == y.batch_stride;
}

}  // namespace

size_t ScaleBytes(int scale_type) { return BytesOf(scale_type); }

Status Check(const Product& p, const char* call) {
  const auto refused = [call](Status status, const char* why) {
    emulator::Complain("%s: %s", call, why);
    return status;
  };
  if (!TypesAreSupported(p)) {
    emulator::Complain("refused: %s: compute type %d, scale type %d, A %d, B %d, C %d, D %d", call, p.compute,
                       p.scale_type, p.a.type, p.b.type, p.c.type, p.d.type);
    return kNotSupported;
  }
  const bool keep_a = p.operation_a == kKeep, keep_b = p.operation_b == kKeep;
  const uint64_t m = keep_a ? p.a.rows : p.a.columns, k = keep_a ? p.a.columns : p.a.rows;
  const uint64_t k_of_b = keep_b ? p.b.rows : p.b.columns, n = keep_b ? p.b.columns : p.b.rows;
  if (k != k_of_b) return refused(kInvalidValue, "op(A) has other columns than op(B) has rows");
  if (p.d.rows != m || p.d.columns != n || p.c.rows != m || p.c.columns != n) {
    return refused(kInvalidValue, "C or D is not of the size of op(A) op(B)");
  }
  for (const Matrix* matrix : {&p.a, &p.b, &p.c, &p.d}) {
    if (!LeadingDimensionHolds(*matrix)) return refused(kInvalidValue, "a leading dimension is too small");
  }
  if (p.batches < 1) return refused(kInvalidValue, "no batch");
  if (p.pointer_d == nullptr || p.pointer_a == nullptr || p.pointer_b == nullptr) {
    return refused(kInvalidValue, "a null matrix");
  }
  if (p.pointer_c == p.pointer_d && !SameLayout(p.c, p.d)) {
    return refused(kInvalidValue, "C is D in another layout");
  }
  if (p.pointer_c == nullptr) {
    static constexpr char kZero[16] = {};
    if (p.scales_on_device || memcmp(p.beta, kZero, ScaleBytes(p.scale_type)) != 0) {
      return refused(kInvalidValue, "beta is not zero and C is null");
    }
  }
  if (!p.arrays_of_pointers) {
    if (!IsAligned(p.pointer_a, p.a) || !IsAligned(p.pointer_b, p.b) || !IsAligned(p.pointer_c, p.c) ||
        !IsAligned(p.pointer_d, p.d)) {
      return refused(kInvalidValue, "a matrix is not aligned to its elements");
    }
  }
  return kSuccess;
}

void Multiply(const Product& product) {
  switch (product.scale_type) {
    case kFloat64:
      return MultiplyAll<double>(product);
    case kInt32:
      return MultiplyAll<int32_t>(product);
    case kComplex64:
      return MultiplyAll<std::complex<float>>(product);
    case kComplex128:
      return MultiplyAll<std::complex<double>>(product);
    case kFloat16:
      return MultiplyAll<_Float16>(product);
    default:
      return MultiplyAll<float>(product);
  }
}

// cuBLAS loads its kernels when it needs them.
void LoadOnce() {
  static std::mutex mutex;
  static auto* loaded = new std::set<CUdevice>;
  CUdevice device = 0;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
  bool is_first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    is_first = loaded->insert(device).second;
  }
  if (is_first) gpu_emulator_load("cuBLAS's first product");
}

Status Launch(const Product& product, const char* call, void* stream) {
  const Status status = Check(product, call);
  if (status != kSuccess) return status;
  LoadOnce();
  const auto run = [](const void* parameters) {
    Product copy;
    memcpy(static_cast<void*>(&copy), parameters, sizeof(copy));
    Multiply(copy);
  };
  const CUresult result =
      gpu_emulator_launch(static_cast<CUstream>(stream), "cublas_product", run, &product, sizeof(product));
  return result == CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

}  // namespace cublas
