// Products through the doubles of cuBLAS, as programs link them.
#include <cuda.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "libraries/cublas_numbers.h"
#include "libraries/matrix_elements.h"

extern "C" {
int cublasLtCreate(void**);
int cublasLtDestroy(void*);
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescDestroy(void*);
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t);
int cublasLtMatrixLayoutCreate(void**, int, uint64_t, uint64_t, int64_t);
int cublasLtMatrixLayoutDestroy(void*);
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t);
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                   void*, void*, const void*, void*, size_t, CUstream);
int cublasCreate_v2(void**);
int cublasDestroy_v2(void*);
int cublasSetStream_v2(void*, CUstream);
int cublasSetMathMode(void*, int);
int cublasSgemm_v2(void*, int, int, int, int, int, const float*, CUdeviceptr, int, CUdeviceptr, int, const float*,
                   CUdeviceptr, int);
int cublasGemmEx(void*, int, int, int, int, int, const void*, CUdeviceptr, int, int, CUdeviceptr, int, int, const void*,
                 CUdeviceptr, int, int, int, int);
int cublasGemmBatchedEx(void*, int, int, int, int, int, const void*, CUdeviceptr, int, int, CUdeviceptr, int, int,
                        const void*, CUdeviceptr, int, int, int, int, int);
int cublasStrsm_v2();
}

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int kEpilogueAttribute = 7, kBiasAttribute = 8, kAuxAttribute = 11, kAuxLeadingAttribute = 12;

class Gpu {
 public:
  Gpu() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    CUcontext context = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  }
  ~Gpu() {
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    for (const CUdeviceptr pointer : pointers_) cuMemFree(pointer);
    cuStreamDestroy(stream);
    cuDevicePrimaryCtxRelease(0);
  }

  template <typename T>
  CUdeviceptr Copy(const std::vector<T>& values) {
    CUdeviceptr pointer = 0;
    REQUIRE(cuMemAlloc(&pointer, values.size() * sizeof(T)) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyHtoD(pointer, values.data(), values.size() * sizeof(T)) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);  // the values are staged, not yet on the device
    pointers_.push_back(pointer);
    return pointer;
  }
  template <typename T = float>
  std::vector<T> Read(CUdeviceptr pointer, size_t count) {
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    std::vector<T> values(count);
    REQUIRE(cuMemcpyDtoH(values.data(), pointer, count * sizeof(T)) == CUDA_SUCCESS);
    return values;
  }

  CUstream stream = nullptr;

 private:
  std::vector<CUdeviceptr> pointers_;
};

// cublasLtMatmul of column-major matrices without batches; its members may be changed before Run().
struct LtProduct {
  LtProduct(int type, uint64_t m, uint64_t n, uint64_t k, int compute = cublas::kCompute32F, int output = -1) {
    if (output == -1) output = type;
    CHECK(cublasLtCreate(&handle) == 0);
    CHECK(cublasLtMatmulDescCreate(&description, compute,
                                   output == cublas::kInt32 ? cublas::kInt32 : cublas::kFloat32) == 0);
    CHECK(cublasLtMatrixLayoutCreate(&a, type, m, k, static_cast<int64_t>(m)) == 0);
    CHECK(cublasLtMatrixLayoutCreate(&b, type, k, n, static_cast<int64_t>(k)) == 0);
    CHECK(cublasLtMatrixLayoutCreate(&c, output, m, n, static_cast<int64_t>(m)) == 0);
    CHECK(cublasLtMatrixLayoutCreate(&d, output, m, n, static_cast<int64_t>(m)) == 0);
  }
  ~LtProduct() {
    cublasLtMatmulDescDestroy(description);
    for (void* layout : {a, b, c, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtDestroy(handle);
  }
  template <typename T>
  int Describe(int attribute, T value) {
    return cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value));
  }
  int Run(CUdeviceptr x, CUdeviceptr y, CUdeviceptr in, CUdeviceptr out, CUstream stream,
          const void* algorithm = nullptr) {
    const auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
    return cublasLtMatmul(handle, description, &alpha, pointer(x), a, pointer(y), b, &beta, pointer(in), c,
                          pointer(out), d, algorithm, nullptr, 0, stream);
  }

  float alpha = 1, beta = 0;
  void *handle, *description, *a, *b, *c, *d;
};

}  // namespace

TEST_CASE("A product of floats is right, with alpha, beta and C") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy<float>({1, 2, 3, 4, 5, 6}), b = gpu.Copy<float>({1, 0, 2, 1, 1, 1});
  const CUdeviceptr c = gpu.Copy<float>({10, 20, 30, 40}), d = gpu.Copy<float>({0, 0, 0, 0});
  LtProduct product(cublas::kFloat32, 2, 2, 3);
  product.alpha = 2;
  product.beta = 0.5;
  REQUIRE(product.Run(a, b, c, d, gpu.stream) == cublas::kSuccess);
  CHECK(gpu.Read(d, 4) == std::vector<float>{2 * 11 + 5, 2 * 14 + 10, 2 * 9 + 15, 2 * 12 + 20});
}

TEST_CASE("A large product equals sums in double precision") {
  Gpu gpu;
  const uint64_t m = 65, n = 33, k = 127;
  std::vector<float> x(m * k), y(k * n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 7 % 31) - 15);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(static_cast<int>(i * 5 % 23) - 11);
  const CUdeviceptr a = gpu.Copy(x), b = gpu.Copy(y), d = gpu.Copy(std::vector<float>(m * n, kNaN));
  LtProduct product(cublas::kFloat32, m, n, k);
  REQUIRE(product.Run(a, b, 0, d, gpu.stream) == cublas::kSuccess);
  const std::vector<float> got = gpu.Read(d, m * n);
  for (uint64_t j = 0; j < n; ++j) {
    for (uint64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (uint64_t p = 0; p < k; ++p) sum += x[p * m + i] * y[j * k + p];
      REQUIRE(got[j * m + i] == static_cast<float>(sum));  // whole numbers: exact in any order
    }
  }
}

TEST_CASE("A beta of zero does not read C") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy<float>({2}), d = gpu.Copy<float>({kNaN});
  LtProduct product(cublas::kFloat32, 1, 1, 1);
  REQUIRE(product.Run(a, a, d, d, gpu.stream) == cublas::kSuccess);
  CHECK(gpu.Read(d, 1) == std::vector<float>{4});
}

TEST_CASE("Products of bfloat16 sum in float") {
  Gpu gpu;
  const uint64_t k = 1024;
  const std::vector<uint16_t> ones(k, cublas::ToBFloat16(1));
  const CUdeviceptr a = gpu.Copy(ones), d = gpu.Copy<float>({0});
  LtProduct product(cublas::kBFloat16, 1, 1, k, cublas::kCompute32F, cublas::kFloat32);
  REQUIRE(product.Run(a, a, 0, d, gpu.stream) == cublas::kSuccess);
  CHECK(gpu.Read(d, 1) == std::vector<float>{1024});  // sums in bfloat16 stay at 256
}

TEST_CASE("Compute type TF32 rounds the operands, type 32F does not") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy<float>({1 + std::ldexp(1.0f, -12)}), one = gpu.Copy<float>({1}),
                    d = gpu.Copy<float>({0});
  LtProduct rounded(cublas::kFloat32, 1, 1, 1, cublas::kCompute32FFastTF32);
  REQUIRE(rounded.Run(a, one, 0, d, gpu.stream) == cublas::kSuccess);
  CHECK(gpu.Read(d, 1) == std::vector<float>{1});
  LtProduct whole(cublas::kFloat32, 1, 1, 1);
  REQUIRE(whole.Run(a, one, 0, d, gpu.stream) == cublas::kSuccess);
  CHECK(gpu.Read(d, 1) == std::vector<float>{1 + std::ldexp(1.0f, -12)});
}

TEST_CASE("The epilogue adds the bias, keeps what it had in the auxiliary output, and applies GELU") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy<float>({1, 2}), b = gpu.Copy<float>({1}), bias = gpu.Copy<float>({-3, 1});
  const CUdeviceptr d = gpu.Copy<float>({0, 0}), aux = gpu.Copy<float>({0, 0});
  LtProduct product(cublas::kFloat32, 2, 1, 1);
  CHECK(product.Describe<int32_t>(kEpilogueAttribute, 4 | 32 | 128) == cublas::kSuccess);
  CHECK(product.Describe<CUdeviceptr>(kBiasAttribute, bias) == cublas::kSuccess);
  CHECK(product.Describe<CUdeviceptr>(kAuxAttribute, aux) == cublas::kSuccess);
  CHECK(product.Describe<int64_t>(kAuxLeadingAttribute, 2) == cublas::kSuccess);
  REQUIRE(product.Run(a, b, 0, d, gpu.stream) == cublas::kSuccess);
  CHECK(gpu.Read(aux, 2) == std::vector<float>{-2, 3});
  const std::vector<float> got = gpu.Read(d, 2);
  CHECK(got[0] == doctest::Approx(-0.0454023).epsilon(1e-4));
  CHECK(got[1] == doctest::Approx(2.9963627).epsilon(1e-4));
}

TEST_CASE("What the double does not know is refused, not ignored") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy<float>({1});
  LtProduct product(cublas::kFloat32, 1, 1, 1);
  CHECK(product.Describe<int32_t>(31, 1) == cublas::kNotSupported);  // scale mode of A
  CHECK(product.Describe<int64_t>(7, 1) == cublas::kInvalidValue);   // an epilogue has four bytes
  CHECK(product.Describe<int32_t>(kEpilogueAttribute, 8 | 128) == cublas::kSuccess);
  CHECK(product.Run(a, a, 0, a, gpu.stream) == cublas::kNotSupported);  // the gradient of relu
  LtProduct scaled(cublas::kFloat32, 1, 1, 1);
  CHECK(scaled.Describe<CUdeviceptr>(17, a) == cublas::kSuccess);
  CHECK(scaled.Run(a, a, 0, a, gpu.stream) == cublas::kNotSupported);
  LtProduct eight_bits(28 /* CUDA_R_8F_E4M3 */, 1, 1, 1, cublas::kCompute32F, cublas::kFloat32);
  CHECK(eight_bits.Run(a, a, 0, a, gpu.stream) == cublas::kNotSupported);
  CHECK(cublasStrsm_v2() == cublas::kNotSupported);
}

TEST_CASE("Sizes that do not fit, foreign algorithms and a C in another layout are invalid") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy(std::vector<float>(16));
  LtProduct product(cublas::kFloat32, 2, 2, 2);
  const uint64_t foreign[8] = {1};
  CHECK(product.Run(a, a, 0, a, gpu.stream, foreign) == cublas::kInvalidValue);
  CHECK(product.Run(a, a, 0, a + 2, gpu.stream) == cublas::kInvalidValue);  // not aligned
  product.beta = 1;
  CHECK(product.Run(a, a, 0, a, gpu.stream) == cublas::kInvalidValue);  // no C
  const int64_t leading = 4;
  CHECK(cublasLtMatrixLayoutSetAttribute(product.c, 4, &leading, sizeof(leading)) == 0);
  CHECK(product.Run(a, a, a, a, gpu.stream) == cublas::kInvalidValue);
  const uint64_t rows = 3;
  CHECK(cublasLtMatrixLayoutSetAttribute(product.b, 2, &rows, sizeof(rows)) == 0);
  CHECK(product.Run(a, a, a, a, gpu.stream) == cublas::kInvalidValue);
}

TEST_CASE("A product reads its operands when the stream comes to it") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy<float>({1}), b = gpu.Copy<float>({1}), d = gpu.Copy<float>({0});
  std::atomic<bool> go{false};
  REQUIRE(cuLaunchHostFunc(
              gpu.stream,
              [](void* flag) {
                while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
              },
              &go) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(a, 0x40a00000 /* 5 */, 1, gpu.stream) == CUDA_SUCCESS);
  LtProduct product(cublas::kFloat32, 1, 1, 1);
  REQUIRE(product.Run(a, b, 0, d, gpu.stream) == cublas::kSuccess);
  go = true;
  CHECK(gpu.Read(d, 1) == std::vector<float>{5});
}

TEST_CASE("A captured product is a kernel node") {
  Gpu gpu;
  const CUdeviceptr a = gpu.Copy<float>({3}), d = gpu.Copy<float>({0});
  LtProduct product(cublas::kFloat32, 1, 1, 1);
  REQUIRE(cuStreamBeginCapture(gpu.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  REQUIRE(product.Run(a, a, 0, d, gpu.stream) == cublas::kSuccess);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(gpu.stream, &graph) == CUDA_SUCCESS);
  CUgraphNode node = nullptr;
  size_t count = 1;
  REQUIRE(cuGraphGetNodes(graph, &node, &count) == CUDA_SUCCESS);
  REQUIRE(count == 1);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_HOST;
  CHECK(cuGraphNodeGetType(node, &type) == CUDA_SUCCESS);
  CHECK(type == CU_GRAPH_NODE_TYPE_KERNEL);
  CUgraphExec exec = nullptr;
  REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(gpu.Read(d, 1) == std::vector<float>{0});
  REQUIRE(cuGraphLaunch(exec, gpu.stream) == CUDA_SUCCESS);
  CHECK(gpu.Read(d, 1) == std::vector<float>{9});
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("cublasSgemm transposes, and rounds to TF32 only in that math mode") {
  Gpu gpu;
  void* handle = nullptr;
  REQUIRE(cublasCreate_v2(&handle) == cublas::kSuccess);
  REQUIRE(cublasSetStream_v2(handle, gpu.stream) == cublas::kSuccess);
  const float fine = 1 + std::ldexp(1.0f, -12), one = 1, zero = 0;
  const CUdeviceptr a = gpu.Copy<float>({1, 2, 3, 4}), b = gpu.Copy<float>({fine, 0, 0, 1});
  const CUdeviceptr d = gpu.Copy(std::vector<float>(4, kNaN));
  const auto run = [&] {
    return cublasSgemm_v2(handle, cublas::kTranspose, cublas::kKeep, 2, 2, 2, &one, a, 2, b, 2, &zero, d, 2);
  };
  REQUIRE(run() == cublas::kSuccess);
  CHECK(gpu.Read(d, 4) == std::vector<float>{fine, 3 * fine, 2, 4});
  CHECK(cublasSetMathMode(handle, cublas::kTF32Math) == cublas::kSuccess);
  REQUIRE(run() == cublas::kSuccess);
  CHECK(gpu.Read(d, 4) == std::vector<float>{1, 3, 2, 4});
  CHECK(cublasDestroy_v2(handle) == cublas::kSuccess);
  CHECK(run() == cublas::kNotInitialized);
}

TEST_CASE("cublasGemmEx multiplies bytes to whole numbers, cublasGemmBatchedEx follows pointers in device memory") {
  Gpu gpu;
  void* handle = nullptr;
  REQUIRE(cublasCreate_v2(&handle) == cublas::kSuccess);
  REQUIRE(cublasSetStream_v2(handle, gpu.stream) == cublas::kSuccess);
  const int32_t one = 1, zero = 0;
  const CUdeviceptr bytes = gpu.Copy<int8_t>({-100, 100}), whole = gpu.Copy<int32_t>({0});
  REQUIRE(cublasGemmEx(handle, 0, 0, 1, 1, 2, &one, bytes, cublas::kInt8, 1, bytes, cublas::kInt8, 2, &zero, whole,
                       cublas::kInt32, 1, cublas::kCompute32I, -1) == cublas::kSuccess);
  CHECK(gpu.Read<int32_t>(whole, 1) == std::vector<int32_t>{20000});
  const float unit = 1, none = 0;
  const CUdeviceptr x = gpu.Copy<float>({2}), y = gpu.Copy<float>({7}), p = gpu.Copy<float>({0}),
                    q = gpu.Copy<float>({0});
  const CUdeviceptr left = gpu.Copy<CUdeviceptr>({x, y}), out = gpu.Copy<CUdeviceptr>({p, q});
  REQUIRE(cublasGemmBatchedEx(handle, 0, 0, 1, 1, 1, &unit, left, cublas::kFloat32, 1, left, cublas::kFloat32, 1, &none,
                              out, cublas::kFloat32, 1, 2, cublas::kCompute32F, -1) == cublas::kSuccess);
  CHECK(gpu.Read(p, 1) == std::vector<float>{4});
  CHECK(gpu.Read(q, 1) == std::vector<float>{49});
  CHECK(cublasDestroy_v2(handle) == cublas::kSuccess);
}
