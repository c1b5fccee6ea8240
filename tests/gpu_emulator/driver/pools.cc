// Memory pools. They are names only: memory is there at once, and is freed when the stream comes to it.
#include <cuda.h>

#include "driver/contexts.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/streams.h"

namespace emulator {
namespace {

CUresult AllocateAsync(CUdeviceptr* pointer, size_t bytes, CUstream handle, const char* call) {
  CUstream stream = nullptr;
  const CUresult result = ResolveFor(call, handle, &stream);
  if (result != CUDA_SUCCESS) return result;
  return Allocate(pointer, bytes, stream->device, Kind::kPool, call);
}

}  // namespace

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return AllocateAsync(pointer, bytes, stream, __func__);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool, CUstream stream) {
  return AllocateAsync(pointer, bytes, stream, __func__);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, [=] { Free(pointer, "cuMemFreeAsync"); });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *pool = reinterpret_cast<CUmemoryPool>(device + 1L);
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
CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }

}  // extern "C"

}  // namespace emulator
