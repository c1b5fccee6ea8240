// Primary contexts and the stack of current ones. Other contexts (cuCtxCreate) are refused.
#include "driver/contexts.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <vector>

#include "driver/capture.h"
#include "driver/faults.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/scheduler.h"
#include "driver/settings.h"
#include "ptx/ptx.h"

namespace emulator {
namespace {

constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

thread_local std::vector<CUcontext> current;
std::atomic<int> used_devices{0};

// Threads of streams may ask while the process ends.
const std::vector<int>& VisibleDevices() {
  static const auto* const visible = [] {
    auto* const list = new std::vector<int>;
    const char* text = getenv("CUDA_VISIBLE_DEVICES");
    if (text == nullptr) {
      for (int i = 0; i < DeviceCount(); ++i) list->push_back(i);
      return list;
    }
    for (const char* at = text; *at != '\0';) {
      char* end = nullptr;
      const long device = strtol(at, &end, 10);
      if (end == at || device < 0 || device >= DeviceCount()) break;  // as the real driver: what follows is not visible
      list->push_back(static_cast<int>(device));
      at = *end == ',' ? end + 1 : end;
    }
    return list;
  }();
  return *visible;
}

}  // namespace

int Physical(int device) { return VisibleDevices().at(static_cast<size_t>(device)); }
int VisibleAs(int gpu) {
  const std::vector<int>& visible = VisibleDevices();
  const auto found = std::find(visible.begin(), visible.end(), gpu);
  return found == visible.end() ? -1 : static_cast<int>(found - visible.begin());
}
int Visible() { return static_cast<int>(VisibleDevices().size()); }
bool IsDevice(CUdevice device) { return device >= 0 && device < Visible(); }

Device& DeviceOf(int device) {
  static auto* devices = [] {
    auto* list = new std::deque<Device>(kMostDevices);
    for (int i = 0; i < kMostDevices; ++i) {
      CUctx_st& context = (*list)[static_cast<size_t>(i)].primary;
      context.device = i;
      context.null_stream.context = &context;
      context.null_stream.device = i;
      context.null_stream.id = static_cast<unsigned long long>(i) * kStreamsOfDevice;
    }
    return list;
  }();
  return devices->at(static_cast<size_t>(device));
}

bool IsContext(CUcontext context) {
  for (int device = 0; device < Visible(); ++device) {
    if (context == &DeviceOf(device).primary) return true;
  }
  return false;
}

bool Reaches(int device, int owner) { return device == owner || MayMap(Physical(device), Physical(owner)); }
bool MayUseMemoryOf(int device, int owner) { return device == owner || DeviceOf(device).peers.count(owner) != 0; }

int UsedDevices() { return used_devices; }

CUcontext Current() { return current.empty() ? nullptr : current.back(); }
int CurrentDevice() { return Current() == nullptr ? 0 : Current()->device; }

namespace {

std::vector<CUstream> StreamsOf(int device) {
  CUctx_st& context = DeviceOf(device).primary;
  const Lock lock(Global());
  std::vector<CUstream> streams(context.streams.begin(), context.streams.end());
  streams.push_back(&context.null_stream);
  return streams;
}

}  // namespace

void WaitForDevice(int device) {
  for (CUstream stream : StreamsOf(device)) stream->Wait();
}

bool WaitForDeviceUntil(int device, std::chrono::steady_clock::time_point moment) {
  for (CUstream stream : StreamsOf(device)) {
    if (!WaitForOperationsUntil(stream, Submitted(stream), moment)) return false;
  }
  return true;
}

CUresult RequireContext(const char* call) {
  if (Current() == nullptr) {
    Complain("%s: no context is current in this thread", call);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const Lock lock(Global());
  if (Current()->retained > 0) return CUDA_SUCCESS;
  Complain("%s: the primary context of device %d was released", call, Current()->device);
  return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  InstallFaultHandler();
  const Lock lock(Global());
  CUctx_st& primary = DeviceOf(device).primary;
  if (++primary.retained == 1) ++used_devices;
  *context = &primary;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Lock lock(Global());
  CUctx_st& primary = DeviceOf(device).primary;
  if (primary.retained == 0) {
    Complain("%s: the primary context of device %d is not retained", __func__, device);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (--primary.retained > 0) return CUDA_SUCCESS;
  --used_devices;
  primary.flags = 0;
  DeviceOf(device).peers.clear();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  DeviceOf(device).primary.flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Lock lock(Global());
  *flags = DeviceOf(device).primary.flags;
  *active = DeviceOf(device).primary.retained > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  Complain("refused: %s of device %d: the emulator keeps primary contexts", __func__, device);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr && !IsContext(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!current.empty()) current.pop_back();
  if (context != nullptr) current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = Current();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (!IsContext(context)) return CUDA_ERROR_INVALID_CONTEXT;
  current.push_back(context);
  return CUDA_SUCCESS;
}

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
  if (context == nullptr) context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  if (context == nullptr) context = Current();
  if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = static_cast<unsigned long long>(context->device) + 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  *flags = Current()->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  Current()->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  {
    const Lock lock(Global());
    const CUresult captured = CheckNothingCaptured(Current(), __func__);
    if (captured != CUDA_SUCCESS) return captured;
  }
  WaitForDevice(CurrentDevice());
  return HasFailed(CurrentDevice()) ? kFailed : CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!IsContext(peer) || peer == Current()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!Reaches(CurrentDevice(), peer->device)) {
    Complain("%s: device %d does not reach device %d (cuDeviceCanAccessPeer)", __func__, CurrentDevice(), peer->device);
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  const Lock lock(Global());
  const bool added = DeviceOf(CurrentDevice()).peers.insert(peer->device).second;
  return added ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if (!IsContext(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  const Lock lock(Global());
  if (DeviceOf(CurrentDevice()).peers.erase(peer->device) == 0) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  ptx::ForgetAccessibleRanges();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit, size_t) { return RequireContext(__func__); }

CUresult cuCtxGetLimit(size_t* value, CUlimit) {
  *value = 0;
  return RequireContext(__func__);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return RequireContext(__func__);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache) { return RequireContext(__func__); }

}  // extern "C"

}  // namespace emulator
