// Copies and memsets, with the behaviour towards the host that the driver's documentation gives under "API
// synchronization behavior".
#include "driver/copies.h"

#include <cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/counts.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/scheduler.h"
#include "driver/streams.h"

namespace emulator {
namespace {

constexpr size_t kMostPieces = 8;
constexpr size_t kLeastPiece = 64;
constexpr unsigned char kGarbage = 0xe7;

enum class Place { kDevice, kPinned, kPageable };

Place PlaceOf(CUdeviceptr address) {
  if (IsDeviceAddress(address)) return Place::kDevice;
  const Lock lock(Global());
  const auto at = Find(address);
  if (at == Ranges().end()) return Place::kPageable;
  return IsDeviceMemory(at->second) ? Place::kDevice : Place::kPinned;
}

bool IsWord(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return bytes <= 8 && (bytes & (bytes - 1)) == 0 && to % bytes == 0 && from % bytes == 0;
}

void CopyWord(void* to, const void* from, size_t bytes) {
  switch (bytes) {
    case 1:
      return __atomic_store_n(static_cast<uint8_t*>(to), *static_cast<const uint8_t*>(from), __ATOMIC_RELEASE);
    case 2:
      return __atomic_store_n(static_cast<uint16_t*>(to), *static_cast<const uint16_t*>(from), __ATOMIC_RELEASE);
    case 4:
      return __atomic_store_n(static_cast<uint32_t*>(to), *static_cast<const uint32_t*>(from), __ATOMIC_RELEASE);
    default:
      return __atomic_store_n(static_cast<uint64_t*>(to), *static_cast<const uint64_t*>(from), __ATOMIC_RELEASE);
  }
}

void CopyInPieces(char* to, const char* from, size_t bytes) {
  memset(to, kGarbage, bytes);
  const size_t pieces = std::clamp<size_t>(bytes / kLeastPiece, 1, kMostPieces);
  std::vector<size_t> order(pieces);
  std::iota(order.begin(), order.end(), 0);
  uint64_t decision = Decision(1);
  for (size_t i = pieces; i > 1; --i) {
    std::swap(order[i - 1], order[decision % i]);
    decision = decision / i + (decision << 32);
  }
  const bool slowly = decision % 8 == 0;
  for (const size_t piece : order) {
    const size_t begin = bytes * piece / pieces, end = bytes * (piece + 1) / pieces;
    if (slowly) usleep(20);
    memcpy(to + begin, from + begin, end - begin);
  }
}

void RunCopy(CUdeviceptr to, CUdeviceptr from, size_t bytes, const char* name) {
  const WorkName work(name);
  const int device = WorkingDevice();
  CheckAccess(from, bytes, Use::kCopyFrom, device, name);
  CheckAccess(to, bytes, Use::kCopyTo, device, name);
  if (RunningStream() != nullptr) Count(RunningStream()->id, CU_GRAPH_NODE_TYPE_MEMCPY, 0, bytes);
  if (to == from) return;
  if (to < from + bytes && from < to + bytes) {
    Die("%s: source 0x%llx and destination 0x%llx of %zu bytes overlap", name, from, to, bytes);
  }
  if (IsWord(to, from, bytes)) return CopyWord(DeviceView<char>(to), DeviceView<char>(from), bytes);
  CopyInPieces(DeviceView<char>(to), DeviceView<char>(from), bytes);
}

template <typename T>
void Fill(CUdeviceptr to, T value, size_t count) {
  T* at = DeviceView<T>(to);
  std::fill(at, at + count, value);
}

// What a memcpy call wants of its pointers.
enum class Direction { kAny, kHostToDevice, kDeviceToHost, kDeviceToDevice };

bool Fits(Direction direction, Place to, Place from) {
  const bool to_device = to == Place::kDevice, from_device = from == Place::kDevice;
  switch (direction) {
    case Direction::kHostToDevice:
      return to_device && !from_device;
    case Direction::kDeviceToHost:
      return from_device && !to_device;
    case Direction::kDeviceToDevice:
      // Unified addressing: pinned memory has a device address.
      return to != Place::kPageable && from != Place::kPageable;
    default:
      return true;
  }
}

// Work that has read pageable memory by the time that this returns.
std::function<void()> StagedCopyWork(CUdeviceptr to, CUdeviceptr from, size_t bytes, const char* name) {
  const char* begin = reinterpret_cast<const char*>(from);
  auto staged = std::make_shared<std::vector<char>>(begin, begin + bytes);
  return [=] { RunCopy(to, reinterpret_cast<CUdeviceptr>(staged->data()), bytes, name); };
}

CUresult CheckCopy(CUdeviceptr to, CUdeviceptr from, size_t bytes, Direction direction, int device, const char* name) {
  if (!Fits(direction, PlaceOf(to), PlaceOf(from))) {
    const Lock lock(Global());
    Complain("%s: wrong kind of memory: %s to %s", name, Describe(from).c_str(), Describe(to).c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  CheckAccess(from, bytes, Use::kCopyFrom, device, name);
  CheckAccess(to, bytes, Use::kCopyTo, device, name);
  return CUDA_SUCCESS;
}

CUresult CopyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle, Direction direction,
                   const char* name) {
  TRACE("%s of %zu bytes", name, bytes);
  CUstream stream = nullptr;
  CUresult result = ResolveFor(name, handle, &stream);
  if (result != CUDA_SUCCESS || bytes == 0) return result;
  result = CheckCopy(to, from, bytes, direction, stream->device, name);
  if (result != CUDA_SUCCESS) return result;
  const Place source = PlaceOf(from), destination = PlaceOf(to);
  bool capturing;
  {
    const Lock lock(Global());
    capturing = stream->capture != nullptr;
  }
  if (capturing) return Enqueue(handle, CU_GRAPH_NODE_TYPE_MEMCPY, CopyWork(to, from, bytes, name));
  if (source == Place::kPageable && destination == Place::kDevice) {
    return Enqueue(handle, CU_GRAPH_NODE_TYPE_MEMCPY, StagedCopyWork(to, from, bytes, name));
  }
  uint64_t number = 0;
  result = Enqueue(handle, CU_GRAPH_NODE_TYPE_MEMCPY, CopyWork(to, from, bytes, name), &number);
  const bool waits = destination == Place::kPageable || (source != Place::kDevice && destination != Place::kDevice);
  if (result != CUDA_SUCCESS || !waits) return result;
  WaitForOperations(stream, number);
  return HasFailed(stream->device) ? kFailed : CUDA_SUCCESS;
}

// The host waits for the work if `waits`, or if the context's flags say that memory operations are synchronous.
CUresult OnNullStream(CUgraphNodeType type, std::function<void()> work, bool waits) {
  {
    const Lock lock(Global());
    const CUresult safe = CheckSafe("a copy or memset of the host");
    if (safe != CUDA_SUCCESS) return safe;
  }
  uint64_t number = 0;
  const CUresult result = Enqueue(nullptr, type, std::move(work), &number);
  if (result != CUDA_SUCCESS) return result;
  unsigned flags = 0;
  cuCtxGetFlags(&flags);
  if (!waits && (flags & CU_CTX_SYNC_MEMOPS) == 0) return CUDA_SUCCESS;
  WaitForOperations(Resolve(nullptr), number);
  return HasFailed(CurrentDevice()) ? kFailed : CUDA_SUCCESS;
}

CUresult Copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, Direction direction, const char* name) {
  TRACE("%s of %zu bytes", name, bytes);
  CUstream stream = nullptr;
  CUresult result = ResolveFor(name, nullptr, &stream);
  if (result != CUDA_SUCCESS || bytes == 0) return result;
  result = CheckCopy(to, from, bytes, direction, stream->device, name);
  if (result != CUDA_SUCCESS) return result;
  const Place source = PlaceOf(from), destination = PlaceOf(to);
  if (source == Place::kPageable && destination == Place::kDevice) {
    // Returns once the memory is staged: the copy to the device may come later.
    stream->Wait();
    return OnNullStream(CU_GRAPH_NODE_TYPE_MEMCPY, StagedCopyWork(to, from, bytes, name), false);
  }
  const bool between_devices = source == Place::kDevice && destination == Place::kDevice;
  return OnNullStream(CU_GRAPH_NODE_TYPE_MEMCPY, CopyWork(to, from, bytes, name), !between_devices);
}

// Asynchronous to the host, except for host memory.
CUresult Memset(CUdeviceptr to, unsigned value, size_t element_bytes, size_t count, const char* name) {
  if (to % element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = RequireContext(name);
  if (result != CUDA_SUCCESS || count == 0) return result;
  CheckAccess(to, element_bytes * count, Use::kWrite, CurrentDevice(), name);
  const Place place = PlaceOf(to);
  if (place == Place::kPageable) return CUDA_ERROR_INVALID_VALUE;
  return OnNullStream(CU_GRAPH_NODE_TYPE_MEMSET, FillWork(to, value, element_bytes, count, name),
                      place == Place::kPinned);
}

CUresult MemsetAsync(CUdeviceptr to, unsigned value, size_t element_bytes, size_t count, CUstream handle,
                     const char* name) {
  if (to % element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  CUstream stream = nullptr;
  const CUresult result = ResolveFor(name, handle, &stream);
  if (result != CUDA_SUCCESS || count == 0) return result;
  CheckAccess(to, element_bytes * count, Use::kWrite, stream->device, name);
  if (PlaceOf(to) == Place::kPageable) return CUDA_ERROR_INVALID_VALUE;
  return Enqueue(handle, CU_GRAPH_NODE_TYPE_MEMSET, FillWork(to, value, element_bytes, count, name));
}

// The memory at each end of a copy between contexts is of that context's device.
CUresult CheckPeers(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, const char* name) {
  const std::pair<CUdeviceptr, CUcontext> ends[] = {{to, to_context}, {from, from_context}};
  for (const auto& [address, context] : ends) {
    if (!IsContext(context)) {
      Complain("%s: %p is no context", name, static_cast<void*>(context));
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    const Lock lock(Global());
    const auto range = Find(address);
    if (range == Ranges().end() || range->second.device == context->device) continue;
    Complain("%s: the context is one of device %d, the memory of device %d: %s", name, context->device,
             range->second.device, Describe(address).c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

std::function<void()> CopyWork(CUdeviceptr to, CUdeviceptr from, size_t bytes, const char* name) {
  return [=] { RunCopy(to, from, bytes, name); };
}

std::function<void()> FillWork(CUdeviceptr to, unsigned value, size_t element_bytes, size_t count, const char* name) {
  return [=] {
    const WorkName work(name);
    CheckAccess(to, element_bytes * count, Use::kWrite, WorkingDevice(), name);
    if (element_bytes == 1) Fill(to, static_cast<uint8_t>(value), count);
    if (element_bytes == 2) Fill(to, static_cast<uint16_t>(value), count);
    if (element_bytes == 4) Fill(to, static_cast<uint32_t>(value), count);
  };
}

extern "C" {

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return Copy(to, Address(from), bytes, Direction::kHostToDevice, __func__);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return Copy(Address(to), from, bytes, Direction::kDeviceToHost, __func__);
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(to, from, bytes, Direction::kDeviceToDevice, __func__);
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(to, from, bytes, Direction::kAny, __func__);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes) {
  const CUresult result = CheckPeers(to, to_context, from, from_context, __func__);
  if (result != CUDA_SUCCESS) return result;
  return Copy(to, from, bytes, Direction::kDeviceToDevice, __func__);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return CopyAsync(to, Address(from), bytes, stream, Direction::kHostToDevice, __func__);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyAsync(Address(to), from, bytes, stream, Direction::kDeviceToHost, __func__);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyAsync(to, from, bytes, stream, Direction::kDeviceToDevice, __func__);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyAsync(to, from, bytes, stream, Direction::kAny, __func__);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
  const CUresult result = CheckPeers(to, to_context, from, from_context, __func__);
  if (result != CUDA_SUCCESS) return result;
  return CopyAsync(to, from, bytes, stream, Direction::kDeviceToDevice, __func__);
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) { return Memset(to, value, 1, count, __func__); }
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return Memset(to, value, 2, count, __func__);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) { return Memset(to, value, 4, count, __func__); }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return MemsetAsync(to, value, 1, count, stream, __func__);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return MemsetAsync(to, value, 2, count, stream, __func__);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return MemsetAsync(to, value, 4, count, stream, __func__);
}

}  // extern "C"

}  // namespace emulator
