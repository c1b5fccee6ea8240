// libcudnn.so.9 as far as XLA's compiler asks for it: cuDNN is there, and has no operations.
#include <cstddef>

namespace {

constexpr int kSuccess = 0, kBadParam = 2000, kNotSupported = 3000;  // cudnnStatus_t
constexpr int kMajor = 9, kMinor = 12, kPatch = 0;                   // the oldest that XLA accepts for CUDA 13

struct Handle {
  void* stream = nullptr;
};

}  // namespace

extern "C" {

int cudnnCreate(Handle** handle) {
  if (handle == nullptr) return kBadParam;
  *handle = new Handle;
  return kSuccess;
}
int cudnnDestroy(Handle* handle) {
  delete handle;
  return kSuccess;
}
int cudnnSetStream(Handle* handle, void* stream) {
  if (handle == nullptr) return kBadParam;
  handle->stream = stream;
  return kSuccess;
}
size_t cudnnGetVersion() { return kMajor * 10000 + kMinor * 100 + kPatch; }
size_t cudnnGetCudartVersion() { return 13000; }
int cudnnGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return kBadParam;
  const int parts[] = {kMajor, kMinor, kPatch};
  *value = parts[which];
  return kSuccess;
}
const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kSuccess:
      return "CUDNN_STATUS_SUCCESS";
    case kBadParam:
      return "CUDNN_STATUS_BAD_PARAM";
    case kNotSupported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:
      return "unknown cuDNN status";
  }
}

}  // extern "C"
