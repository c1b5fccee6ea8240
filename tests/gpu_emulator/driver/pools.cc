// Memory pools. They are names only, because allocation happens at once.
#include <cuda.h>

#include "driver/contexts.h"
#include "driver/memory.h"
#include "driver/objects.h"

namespace emulator {

extern "C" {

// Pools: allocation is at once, so they are names only.
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return *pool = reinterpret_cast<CUmemoryPool>(device + 1L), CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }
CUresult cuDeviceSetMemPool(CUdevice, CUmemoryPool) { return CUDA_SUCCESS; }
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return CUDA_SUCCESS; }
CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  return *static_cast<uint64_t*>(value) = 0, CUDA_SUCCESS;
}
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  return *pool = reinterpret_cast<CUmemoryPool>(100L), CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool) { return CUDA_SUCCESS; }
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) { return CUDA_SUCCESS; }
CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool, CUstream) {
  return Allocate(pointer, bytes, CurrentDevice());
}

}  // extern "C"

}  // namespace emulator
