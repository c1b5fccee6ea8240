// libcublas.so.13 and libcublasLt.so.13: products of matrices on the host, enqueued on the caller's stream. XLA:GPU of
// 0.10.2 goes through cublasLtMatmul.
#include <cuda.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

extern "C" int gpu_emulator_refused(const char* name) {
  if (const char* path = getenv("GPU_EMULATOR_LOG")) {
    if (FILE* f = fopen(path, "a")) {
      fprintf(f, "[%d] refused: %s has no behaviour\n", getpid(), name);
      fclose(f);
    }
  }
  return 15;  // CUBLAS_STATUS_NOT_SUPPORTED
}
namespace {
enum Type { kF32 = 0, kF64 = 1, kF16 = 2, kS8 = 3, kS32 = 10, kBF16 = 14 };  // cudaDataType
size_t BytesOf(int type) { return type == kF64 ? 8 : type == kF32 || type == kS32 ? 4 : type == kS8 ? 1 : 2; }
double Load(const char* at, int type) {
  switch (type) {
    case kF32: {
      float v;
      memcpy(&v, at, 4);
      return v;
    }
    case kF64: {
      double v;
      memcpy(&v, at, 8);
      return v;
    }
    case kF16: {
      _Float16 v;
      memcpy(&v, at, 2);
      return static_cast<double>(v);
    }
    case kS8:
      return *reinterpret_cast<const int8_t*>(at);
    case kS32: {
      int32_t v;
      memcpy(&v, at, 4);
      return v;
    }
    default: {
      uint16_t b;
      memcpy(&b, at, 2);
      uint32_t w = static_cast<uint32_t>(b) << 16;
      float v;
      memcpy(&v, &w, 4);
      return v;
    }
  }
}
void Store(char* at, int type, double x) {
  switch (type) {
    case kF32: {
      const float v = static_cast<float>(x);
      memcpy(at, &v, 4);
      break;
    }
    case kF64:
      memcpy(at, &x, 8);
      break;
    case kF16: {
      const _Float16 v = static_cast<_Float16>(x);
      memcpy(at, &v, 2);
      break;
    }
    case kS8:
      *at = static_cast<char>(x);
      break;
    case kS32: {
      const int32_t v = static_cast<int32_t>(x);
      memcpy(at, &v, 4);
      break;
    }
    default: {
      const float v = static_cast<float>(x);
      uint32_t w;
      memcpy(&w, &v, 4);
      const uint16_t b = std::isnan(v) ? 0x7fff : static_cast<uint16_t>((w + 0x7fff + ((w >> 16) & 1)) >> 16);
      memcpy(at, &b, 2);
    }
  }
}
struct Attributes {  // cublasLt's objects: attributes by number, at most 8 bytes each
  uint64_t value[64] = {};
};
// Numbers of cublasLtMatrixLayoutAttribute_t and cublasLtMatmulDescAttributes_t.
enum Layout { kType, kOrder, kRows, kCols, kLd, kBatch, kStride };
enum Desc { kCompute, kScale, kPointerMode, kTransA, kTransB, kTransC, kFill, kEpilogue, kBias };

struct Work {
  Attributes desc, a, b, c, d;
  double alpha, beta;
  const char *pa, *pb, *pc;
  char* pd;
};
double Element(const char* base, const Attributes& l, uint64_t row, uint64_t column, uint64_t batch) {
  const uint64_t at =
      batch * l.value[kStride] + (l.value[kOrder] == 1 ? row * l.value[kLd] + column : column * l.value[kLd] + row);
  return Load(base + at * BytesOf(static_cast<int>(l.value[kType])), static_cast<int>(l.value[kType]));
}
void Multiply(void* data) {
  const Work& w = *static_cast<Work*>(data);
  const bool ta = w.desc.value[kTransA] != 0, tb = w.desc.value[kTransB] != 0;
  const uint64_t m = w.d.value[kRows], n = w.d.value[kCols], k = ta ? w.a.value[kRows] : w.a.value[kCols];
  const int type = static_cast<int>(w.d.value[kType]);
  const uint64_t epilogue = w.desc.value[kEpilogue];
  std::vector<double> a(m * k), b(k * n);
  for (uint64_t batch = 0; batch < (w.d.value[kBatch] != 0 ? w.d.value[kBatch] : 1); ++batch) {
    for (uint64_t i = 0; i < m; ++i)
      for (uint64_t p = 0; p < k; ++p)
        a[i * k + p] = ta ? Element(w.pa, w.a, p, i, batch) : Element(w.pa, w.a, i, p, batch);
    for (uint64_t j = 0; j < n; ++j)
      for (uint64_t p = 0; p < k; ++p)
        b[j * k + p] = tb ? Element(w.pb, w.b, j, p, batch) : Element(w.pb, w.b, p, j, batch);
    for (uint64_t j = 0; j < n; ++j)
      for (uint64_t i = 0; i < m; ++i) {
        double sum = 0;
        const double *x = &a[i * k], *y = &b[j * k];
        for (uint64_t p = 0; p < k; ++p) sum += x[p] * y[p];
        sum *= w.alpha;
        if (w.beta != 0) sum += w.beta * Element(w.pc, w.c, i, j, batch);
        if (epilogue & 4) {
          const char* bias = reinterpret_cast<const char*>(w.desc.value[kBias]);
          sum += Load(bias + i * BytesOf(type), type);
        }
        if ((epilogue & 2) && sum < 0) sum = 0;
        if (epilogue & 32) sum = 0.5 * sum * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
        const uint64_t at =
            batch * w.d.value[kStride] + (w.d.value[kOrder] == 1 ? i * w.d.value[kLd] + j : j * w.d.value[kLd] + i);
        Store(w.pd + at * BytesOf(type), type, sum);
      }
  }
}
}  // namespace
extern "C" {
int cublasCreate_v2(void** handle) {
  *handle = reinterpret_cast<void*>(1);
  return 0;
}
int cublasDestroy_v2(void*) { return 0; }
int cublasSetStream_v2(void*, void*) { return 0; }
int cublasGetVersion_v2(void*, int* version) {
  *version = 130200;
  return 0;
}
int cublasSetMathMode(void*, int) { return 0; }
int cublasGetMathMode(void*, int* mode) {
  *mode = 0;
  return 0;
}
int cublasSetPointerMode_v2(void*, int) { return 0; }
int cublasSetAtomicsMode(void*, int) { return 0; }
int cublasSetWorkspace_v2(void*, void*, size_t) { return 0; }
int cublasGetProperty(int which, int* value) {
  *value = which == 0 ? 13 : 0;
  return 0;
}
const char* cublasGetStatusString(int) { return "emulated cuBLAS"; }
const char* cublasGetStatusName(int) { return "emulated cuBLAS"; }
int cublasLtCreate(void** handle) {
  *handle = reinterpret_cast<void*>(1);
  return 0;
}
int cublasLtDestroy(void*) { return 0; }
size_t cublasLtGetVersion() { return 130200; }
const char* cublasLtGetStatusString(int) { return "emulated cuBLASLt"; }
int cublasLtMatmulDescCreate(Attributes** desc, int compute, int scale) {
  *desc = new Attributes;
  (*desc)->value[kCompute] = compute, (*desc)->value[kScale] = scale, (*desc)->value[kEpilogue] = 1;
  return 0;
}
int cublasLtMatrixLayoutCreate(Attributes** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new Attributes;
  auto& v = (*layout)->value;
  v[kType] = type, v[kRows] = rows, v[kCols] = cols, v[kLd] = static_cast<uint64_t>(ld), v[kBatch] = 1;
  return 0;
}
int cublasLtMatmulPreferenceCreate(Attributes** preference) { return *preference = new Attributes, 0; }
static int SetAttribute(Attributes* object, int attribute, const void* from, size_t bytes) {
  if (attribute >= 64 || bytes > 8) return 0;  // of no matter here
  object->value[attribute] = 0;
  memcpy(&object->value[attribute], from, bytes);
  return 0;
}
static int GetAttribute(const Attributes* object, int attribute, void* to, size_t bytes, size_t* written) {
  memcpy(to, &object->value[attribute], bytes < 8 ? bytes : 8);
  if (written != nullptr) *written = bytes;
  return 0;
}
int cublasLtMatmulDescSetAttribute(Attributes* o, int a, const void* f, size_t b) { return SetAttribute(o, a, f, b); }
int cublasLtMatrixLayoutSetAttribute(Attributes* o, int a, const void* f, size_t b) { return SetAttribute(o, a, f, b); }
int cublasLtMatmulPreferenceSetAttribute(Attributes* o, int a, const void* f, size_t b) {
  return SetAttribute(o, a, f, b);
}
int cublasLtMatmulDescGetAttribute(Attributes* o, int a, void* t, size_t b, size_t* w) {
  return GetAttribute(o, a, t, b, w);
}
int cublasLtMatrixLayoutGetAttribute(Attributes* o, int a, void* t, size_t b, size_t* w) {
  return GetAttribute(o, a, t, b, w);
}
int cublasLtMatmulDescDestroy(Attributes* o) { return delete o, 0; }
int cublasLtMatrixLayoutDestroy(Attributes* o) { return delete o, 0; }
int cublasLtMatmulPreferenceDestroy(Attributes* o) { return delete o, 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int wanted, char* results,
                                   int* count) {
  *count = wanted > 0 ? 1 : 0;
  if (wanted > 0) memset(results, 0, 96);  // one algorithm, no workspace
  return 0;
}
int cublasLtMatmul(void*, const Attributes* desc, const void* alpha, const void* a, const Attributes* la, const void* b,
                   const Attributes* lb, const void* beta, const void* c, const Attributes* lc, void* d,
                   const Attributes* ld, const void*, void*, size_t, CUstream stream) {
  const int scale = static_cast<int>(desc->value[kScale]);
  // Kept for ever: a graph may run it again.
  auto* work = new Work{*desc,
                        *la,
                        *lb,
                        *lc,
                        *ld,
                        Load(static_cast<const char*>(alpha), scale),
                        Load(static_cast<const char*>(beta), scale),
                        static_cast<const char*>(a),
                        static_cast<const char*>(b),
                        static_cast<const char*>(c),
                        static_cast<char*>(d)};
  return cuLaunchHostFunc(stream, Multiply, work) == CUDA_SUCCESS ? 0 : 14;
}
}
