// Primary contexts and the stack of current ones.
#include "driver/contexts.h"

#include <cuda.h>

#include <cstdlib>
#include <deque>
#include <set>
#include <vector>

#include "driver/objects.h"
#include "driver/settings.h"

namespace emulator {

// Physical number of a visible device (CUDA_VISIBLE_DEVICES as a list of ordinals).
int Physical(int device) {
  static const std::vector<int> visible = [] {
    std::vector<int> list;
    const char* text = getenv("CUDA_VISIBLE_DEVICES");
    if (text == nullptr) {
      for (int i = 0; i < DeviceCount(); ++i) list.push_back(i);
      return list;
    }
    for (const char* at = text; *at != '\0';) {
      char* end = nullptr;
      list.push_back(static_cast<int>(strtol(at, &end, 10)));
      if (end == at) break;
      at = *end == ',' ? end + 1 : end;
    }
    return list;
  }();
  if (device < 0) return static_cast<int>(visible.size());
  return visible[device];
}
int Visible() { return Physical(-1); }
Device& DeviceOf(int device) {
  static auto* devices = [] {
    auto* list = new std::deque<Device>(64);
    for (int i = 0; i < 64; ++i) (*list)[i].primary.device = i;
    return list;
  }();
  return (*devices)[device];
}
namespace {
thread_local std::vector<CUcontext> current;
}  // namespace
CUcontext Current() { return current.empty() ? nullptr : current.back(); }
int CurrentDevice() { return Current() == nullptr ? 0 : Current()->device; }

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const Lock lock(Global());
  ++DeviceOf(device).primary.retained;
  *context = &DeviceOf(device).primary;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return --DeviceOf(device).primary.retained, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice, unsigned) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = DeviceOf(device).primary.retained > 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  if (!current.empty()) current.pop_back();
  if (context != nullptr) current.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) { return *context = Current(), CUDA_SUCCESS; }
CUresult cuCtxPushCurrent(CUcontext context) { return current.push_back(context), CUDA_SUCCESS; }
CUresult cuCtxPopCurrent(CUcontext* context) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = Current()->device;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  *device = context != nullptr ? context->device : CurrentDevice();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  *id = 1 + (context != nullptr ? context->device : CurrentDevice());
  return CUDA_SUCCESS;
}
CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) { return *version = 3020, CUDA_SUCCESS; }
CUresult cuCtxGetFlags(unsigned* flags) { return *flags = 0, CUDA_SUCCESS; }
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  CUcontext context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::set<CUstream> streams;
  {
    const Lock lock(Global());
    streams = context->streams;
  }
  for (CUstream stream : streams) stream->Wait();
  context->null_stream.Wait();
  return failed ? kFailed : CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_SUCCESS; }
CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }
CUresult cuCtxGetLimit(size_t* value, CUlimit) { return *value = 0, CUDA_SUCCESS; }
CUresult cuCtxGetCacheConfig(CUfunc_cache* config) { return *config = CU_FUNC_CACHE_PREFER_NONE, CUDA_SUCCESS; }
CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CUDA_SUCCESS; }

}  // extern "C"

}  // namespace emulator
