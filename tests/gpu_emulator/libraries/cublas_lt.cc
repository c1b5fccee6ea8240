// libcublasLt.so.13: cublasLtMatmul, through which XLA:GPU multiplies, and what describes a product to it.
// An attribute that the double does not know is refused by its number, never ignored.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "driver/log.h"
#include "libraries/cublas_numbers.h"
#include "libraries/matrix_elements.h"
#include "libraries/matrix_product.h"

namespace cublas {
namespace {

constexpr size_t kVersion = 130200;

// Numbers of cublasLtMatrixLayoutAttribute_t, cublasLtMatmulDescAttributes_t, cublasLtMatmulPreferenceAttributes_t.
enum LayoutAttribute { kType, kOrder, kRows, kColumns, kLeadingDimension, kBatchCount, kBatchStride };
enum DescriptionAttribute {
  kComputeType = 0,
  kScaleType = 1,
  kPointerMode = 2,
  kOperationA = 3,
  kOperationB = 4,
  kOperationC = 5,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBiasBatchStride = 10,
  kAuxiliaryPointer = 11,
  kAuxiliaryLeadingDimension = 12,
  kAuxiliaryBatchStride = 13,
  kScalePointerA = 17,
  kScalePointerB = 18,
  kScalePointerC = 19,
  kScalePointerD = 20,
  kMaximumPointerD = 21,
  kFastAccumulation = 25,
  kBiasType = 26,
};
enum PreferenceAttribute { kSearchMode = 0, kWorkspaceBytes = 1 };
enum EpilogueBits {
  kEpilogueDefault = 1,
  kEpilogueRelu = 2,
  kEpilogueBias = 4,
  kEpilogueGelu = 32,
  kEpilogueAux = 128
};

struct Attribute {
  size_t bytes;
  uint64_t value;
};
using Attributes = std::map<int, Attribute>;

}  // namespace

// The three objects of cublasLt. `kind` names one in messages.
struct Described {
  const char* kind;
  Attributes attributes;

  uint64_t operator[](int attribute) const { return attributes.at(attribute).value; }
  const void* Pointer(int attribute) const { return reinterpret_cast<const void*>((*this)[attribute]); }
  int Number(int attribute) const { return static_cast<int>((*this)[attribute]); }
  int64_t Signed(int attribute) const { return static_cast<int64_t>((*this)[attribute]); }
};

namespace {

Status RefusedAttribute(const Described& object, int attribute) {
  emulator::Complain("refused: attribute %d of cublasLt%s", attribute, object.kind);
  return kNotSupported;
}

Status Set(Described* object, int attribute, const void* from, size_t bytes) {
  if (object == nullptr || from == nullptr) return kInvalidValue;
  const auto known = object->attributes.find(attribute);
  if (known == object->attributes.end()) return RefusedAttribute(*object, attribute);
  if (bytes != known->second.bytes) return kInvalidValue;
  known->second.value = 0;
  memcpy(&known->second.value, from, bytes);
  return kSuccess;
}

Status Get(const Described* object, int attribute, void* to, size_t bytes, size_t* written) {
  if (object == nullptr) return kInvalidValue;
  const auto known = object->attributes.find(attribute);
  if (known == object->attributes.end()) return RefusedAttribute(*object, attribute);
  if (written != nullptr) *written = known->second.bytes;
  if (bytes == 0 && written != nullptr) return kSuccess;
  if (to == nullptr || bytes < known->second.bytes) return kInvalidValue;
  memcpy(to, &known->second.value, known->second.bytes);
  return kSuccess;
}

Matrix MatrixOf(const Described& layout) {
  Matrix matrix;
  matrix.type = layout.Number(kType);
  matrix.order = layout.Number(kOrder);
  matrix.rows = layout[kRows];
  matrix.columns = layout[kColumns];
  matrix.leading_dimension = layout.Signed(kLeadingDimension);
  matrix.batch_stride = layout.Signed(kBatchStride);
  return matrix;
}

Status SetEpilogue(const Described& description, const Described& layout_d, Product* product) {
  const uint64_t epilogue = description[kEpilogue];
  const uint64_t known = kEpilogueDefault | kEpilogueRelu | kEpilogueBias | kEpilogueGelu | kEpilogueAux;
  const bool relu = (epilogue & kEpilogueRelu) != 0, gelu = (epilogue & kEpilogueGelu) != 0;
  // The auxiliary output of relu is a mask of bits, which the double does not write.
  if ((epilogue & ~known) != 0 || epilogue == 0 || (relu && gelu) || ((epilogue & kEpilogueAux) != 0 && !gelu)) {
    emulator::Complain("refused: cublasLtMatmul: epilogue %llu", static_cast<unsigned long long>(epilogue));
    return kNotSupported;
  }
  if (epilogue != kEpilogueDefault && product->d.order != kColumnMajor) {
    emulator::Complain("refused: cublasLtMatmul: an epilogue with D by rows");
    return kNotSupported;
  }
  product->activation = relu ? kRelu : gelu ? kGelu : kNoActivation;
  if ((epilogue & kEpilogueBias) != 0) {
    product->bias = static_cast<const char*>(description.Pointer(kBiasPointer));
    product->bias_batch_stride = description.Signed(kBiasBatchStride);
    const int type = description.Number(kBiasType);
    product->bias_type = type == -1 ? layout_d.Number(kType) : type;
    if (product->bias == nullptr || BytesOf(product->bias_type) == 0) return kInvalidValue;
  }
  if ((epilogue & kEpilogueAux) != 0) {
    product->auxiliary = static_cast<char*>(const_cast<void*>(description.Pointer(kAuxiliaryPointer)));
    product->auxiliary_leading_dimension = description.Signed(kAuxiliaryLeadingDimension);
    product->auxiliary_batch_stride = description.Signed(kAuxiliaryBatchStride);
    if (product->auxiliary == nullptr || product->auxiliary_leading_dimension < static_cast<int64_t>(product->d.rows)) {
      return kInvalidValue;
    }
  }
  return kSuccess;
}

// Everything but pointers and scales.
Status Describe(const Described& description, const Described& a, const Described& b, const Described& c,
                const Described& d, Product* product) {
  for (const int scale : {kScalePointerA, kScalePointerB, kScalePointerC, kScalePointerD, kMaximumPointerD}) {
    if (description[scale] != 0) return RefusedAttribute(description, scale);
  }
  if (description.Number(kOperationC) != kKeep) return RefusedAttribute(description, kOperationC);
  product->compute = description.Number(kComputeType);
  product->scale_type = description.Number(kScaleType);
  product->operation_a = description.Number(kOperationA);
  product->operation_b = description.Number(kOperationB);
  product->a = MatrixOf(a);
  product->b = MatrixOf(b);
  product->c = MatrixOf(c);
  product->d = MatrixOf(d);
  product->batches = d.Number(kBatchCount);
  for (const Described* layout : {&a, &b, &c}) {
    if (layout->Number(kBatchCount) != product->batches) return kInvalidValue;
  }
  for (const Described* layout : {&a, &b, &c, &d}) {
    const int order = layout->Number(kOrder);
    if (order != kColumnMajor && order != kRowMajor) {
      emulator::Complain("refused: cublasLt: order %d of a matrix", order);
      return kNotSupported;
    }
  }
  return kSuccess;
}

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct HeuristicResult {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96);
constexpr uint64_t kOurAlgorithm = 0x656d756c61746564;  // nothing else has made such an algorithm

}  // namespace
}  // namespace cublas

using cublas::Described;

extern "C" {

int cublasLtCreate(void** handle) {
  if (handle == nullptr) return cublas::kInvalidValue;
  *handle = new char;
  return cublas::kSuccess;
}
int cublasLtDestroy(void* handle) {
  delete static_cast<char*>(handle);
  return cublas::kSuccess;
}
size_t cublasLtGetVersion() { return cublas::kVersion; }
const char* cublasLtGetStatusName(int status) {
  return status == cublas::kSuccess ? "CUBLAS_STATUS_SUCCESS" : "a cuBLASLt error of the emulated GPU";
}
const char* cublasLtGetStatusString(int status) { return cublasLtGetStatusName(status); }

int cublasLtMatmulDescCreate(Described** description, int compute, int scale) {
  if (description == nullptr) return cublas::kInvalidValue;
  const auto number = [](int64_t value) { return cublas::Attribute{4, static_cast<uint32_t>(value)}; };
  const auto wide = cublas::Attribute{8, 0};
  *description = new Described{"MatmulDesc",
                               {{cublas::kComputeType, number(compute)},
                                {cublas::kScaleType, number(scale)},
                                {cublas::kPointerMode, number(cublas::kHostPointers)},
                                {cublas::kOperationA, number(cublas::kKeep)},
                                {cublas::kOperationB, number(cublas::kKeep)},
                                {cublas::kOperationC, number(cublas::kKeep)},
                                {cublas::kEpilogue, number(cublas::kEpilogueDefault)},
                                {cublas::kBiasPointer, wide},
                                {cublas::kBiasBatchStride, wide},
                                {cublas::kAuxiliaryPointer, wide},
                                {cublas::kAuxiliaryLeadingDimension, wide},
                                {cublas::kAuxiliaryBatchStride, wide},
                                {cublas::kScalePointerA, wide},
                                {cublas::kScalePointerB, wide},
                                {cublas::kScalePointerC, wide},
                                {cublas::kScalePointerD, wide},
                                {cublas::kMaximumPointerD, wide},
                                {cublas::kFastAccumulation, cublas::Attribute{1, 0}},
                                {cublas::kBiasType, number(-1)}}};
  return cublas::kSuccess;
}
int cublasLtMatrixLayoutCreate(Described** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  if (layout == nullptr) return cublas::kInvalidValue;
  *layout = new Described{"MatrixLayout",
                          {{cublas::kType, {4, static_cast<uint64_t>(type)}},
                           {cublas::kOrder, {4, cublas::kColumnMajor}},
                           {cublas::kRows, {8, rows}},
                           {cublas::kColumns, {8, columns}},
                           {cublas::kLeadingDimension, {8, static_cast<uint64_t>(leading)}},
                           {cublas::kBatchCount, {4, 1}},
                           {cublas::kBatchStride, {8, 0}}}};
  return cublas::kSuccess;
}
int cublasLtMatmulPreferenceCreate(Described** preference) {
  if (preference == nullptr) return cublas::kInvalidValue;
  *preference = new Described{"MatmulPreference", {{cublas::kSearchMode, {4, 0}}, {cublas::kWorkspaceBytes, {8, 0}}}};
  return cublas::kSuccess;
}
int cublasLtMatmulDescSetAttribute(Described* object, int attribute, const void* from, size_t bytes) {
  return cublas::Set(object, attribute, from, bytes);
}
int cublasLtMatrixLayoutSetAttribute(Described* object, int attribute, const void* from, size_t bytes) {
  return cublas::Set(object, attribute, from, bytes);
}
int cublasLtMatmulPreferenceSetAttribute(Described* object, int attribute, const void* from, size_t bytes) {
  return cublas::Set(object, attribute, from, bytes);
}
int cublasLtMatmulDescGetAttribute(const Described* object, int attribute, void* to, size_t bytes, size_t* written) {
  return cublas::Get(object, attribute, to, bytes, written);
}
int cublasLtMatrixLayoutGetAttribute(const Described* object, int attribute, void* to, size_t bytes, size_t* written) {
  return cublas::Get(object, attribute, to, bytes, written);
}
int cublasLtMatmulDescDestroy(Described* object) {
  delete object;
  return cublas::kSuccess;
}
int cublasLtMatrixLayoutDestroy(Described* object) {
  delete object;
  return cublas::kSuccess;
}
int cublasLtMatmulPreferenceDestroy(Described* object) {
  delete object;
  return cublas::kSuccess;
}

// One algorithm, which needs no workspace.
int cublasLtMatmulAlgoGetHeuristic(void* handle, const Described* description, const Described* a, const Described* b,
                                   const Described* c, const Described* d, const Described* preference, int wanted,
                                   cublas::HeuristicResult* results, int* count) {
  if (handle == nullptr || description == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      preference == nullptr || results == nullptr || count == nullptr || wanted <= 0) {
    return cublas::kInvalidValue;
  }
  *count = 0;
  cublas::Product product;
  const cublas::Status status = cublas::Describe(*description, *a, *b, *c, *d, &product);
  if (status != cublas::kSuccess) return status;
  *results = {};
  results->algorithm.data[0] = cublas::kOurAlgorithm;
  results->waves = 1;
  *count = 1;
  return cublas::kSuccess;
}

int cublasLtMatmul(void* handle, const Described* description, const void* alpha, const void* a,
                   const Described* layout_a, const void* b, const Described* layout_b, const void* beta, const void* c,
                   const Described* layout_c, void* d, const Described* layout_d, const cublas::Algorithm* algorithm,
                   void*, size_t, void* stream) {
  if (handle == nullptr) return cublas::kNotInitialized;
  if (description == nullptr || layout_a == nullptr || layout_b == nullptr || layout_c == nullptr ||
      layout_d == nullptr || alpha == nullptr || beta == nullptr) {
    return cublas::kInvalidValue;
  }
  if (algorithm != nullptr && algorithm->data[0] != cublas::kOurAlgorithm) {
    emulator::Complain("cublasLtMatmul: an algorithm that no heuristic of this library has returned");
    return cublas::kInvalidValue;
  }
  cublas::Product product;
  cublas::Status status = cublas::Describe(*description, *layout_a, *layout_b, *layout_c, *layout_d, &product);
  if (status == cublas::kSuccess) status = cublas::SetEpilogue(*description, *layout_d, &product);
  if (status != cublas::kSuccess) return status;
  product.pointer_a = static_cast<const char*>(a);
  product.pointer_b = static_cast<const char*>(b);
  product.pointer_c = static_cast<const char*>(c);
  product.pointer_d = static_cast<char*>(d);
  switch (description->Number(cublas::kPointerMode)) {
    case cublas::kHostPointers:
      memcpy(product.alpha, alpha, cublas::ScaleBytes(product.scale_type));
      memcpy(product.beta, beta, cublas::ScaleBytes(product.scale_type));
      break;
    case cublas::kDevicePointers:
      product.scales_on_device = true;
      product.device_alpha = alpha;
      product.device_beta = beta;
      break;
    default:
      return cublas::RefusedAttribute(*description, cublas::kPointerMode);
  }
  return cublas::Launch(product, "cublasLtMatmul", stream);
}

}  // extern "C"
