// Memory pools. They are names only: memory is there at once, and is freed when the stream comes to it.
#include <cuda.h>

#include <map>
#include <set>

#include "driver/contexts.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/streams.h"
#include "ptx/ptx.h"

namespace emulator {
namespace {

// Devices with a right to a pool's memory, besides its own. Requires Global().
std::map<CUmemoryPool, std::set<int>>& PoolAccess() {
  static auto* access = new std::map<CUmemoryPool, std::set<int>>;
  return *access;
}

CUmemoryPool DefaultPool(int device) { return reinterpret_cast<CUmemoryPool>(device + 1L); }

// `pool`: null for the default one of the stream's device.
CUresult AllocateAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream handle, const char* call) {
  CUstream stream = nullptr;
  const CUresult result = ResolveFor(call, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  const CUresult allocated = Allocate(pointer, bytes, stream->device, Kind::kPool, call);
  if (allocated == CUDA_SUCCESS) Ranges()[*pointer].pool = pool == nullptr ? DefaultPool(stream->device) : pool;
  return allocated;
}

}  // namespace

bool PoolAllows(CUmemoryPool pool, int device) { return PoolAccess()[pool].count(device) != 0; }

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return AllocateAsync(pointer, bytes, nullptr, stream, __func__);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return AllocateAsync(pointer, bytes, pool, stream, __func__);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, [=] { Free(pointer, "cuMemFreeAsync"); });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = DefaultPool(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool) {
  return IsDevice(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  *static_cast<uint64_t*>(value) = 0;
  return CUDA_SUCCESS;
}
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  *pool = reinterpret_cast<CUmemoryPool>(1000 + NextId());
  return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool) { return CUDA_SUCCESS; }
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) { return CUDA_SUCCESS; }
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  const Lock lock(Global());
  for (size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !IsDevice(device)) return CUDA_ERROR_INVALID_VALUE;
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_INVALID_VALUE;  // refused, as documented
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
      PoolAccess()[pool].erase(device);
    } else {
      PoolAccess()[pool].insert(device);
    }
  }
  ptx::ForgetAccessibleRanges();
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
