// Virtual memory management: reserved addresses, physical memory, and export to other processes.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"

namespace emulator {

extern "C" {

// Virtual memory management.
struct Physical_st {
  std::shared_ptr<Backing> backing;
};
CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  return *bytes = 2 << 20, CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long) {
  if (alignment < 2 << 20) alignment = 2 << 20;
  const Lock lock(Global());
  void* memory = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = (reinterpret_cast<uintptr_t>(memory) + alignment - 1) / alignment * alignment;
  TRACE("cuMemAddressReserve %zu -> %p", bytes, reinterpret_cast<void*>(*pointer));
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  munmap(reinterpret_cast<void*>(pointer), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long) {
  TRACE("cuMemCreate %zu, location %d %d, handles %d, fabric/rdma %d", bytes, properties->location.type,
        properties->location.id, properties->requestedHandleTypes, properties->allocFlags.gpuDirectRDMACapable);
  auto backing = NewBacking(bytes, properties->location.id);
  if (backing == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical_st{backing});
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  delete reinterpret_cast<Physical_st*>(handle);
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  const Lock lock(Global());
  auto backing = reinterpret_cast<Physical_st*>(handle)->backing;
  TRACE("cuMemMap %p %zu", reinterpret_cast<void*>(pointer), bytes);
  if (MapBacking(backing, bytes, offset, reinterpret_cast<void*>(pointer)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Ranges()[pointer] = Range{bytes, Kind::kDevice, backing->device, backing, offset, false, NextId()};
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  const Lock lock(Global());
  mmap(reinterpret_cast<void*>(pointer), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  for (auto at = Ranges().lower_bound(pointer); at != Ranges().end() && at->first < pointer + bytes;) {
    at = Ranges().erase(at);
  }
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }
CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation*, CUdeviceptr) {
  return *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_SUCCESS;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const Lock lock(Global());
  const auto at = Find(reinterpret_cast<uintptr_t>(address));
  if (at == Ranges().end() || at->second.backing == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical_st{at->second.backing});
  return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, reinterpret_cast<Physical_st*>(handle)->backing->device};
  return CUDA_SUCCESS;
}
CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  *static_cast<int*>(out) = dup(reinterpret_cast<Physical_st*>(handle)->backing->fd);
  TRACE("cuMemExportToShareableHandle fd %d", *static_cast<int*>(out));
  return CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* from,
                                        CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  auto backing = std::make_shared<Backing>();
  backing->fd = dup(static_cast<int>(reinterpret_cast<intptr_t>(from)));
  const off_t bytes = lseek(backing->fd, 0, SEEK_END);
  TRACE("cuMemImportFromShareableHandle fd %ld: %ld bytes", reinterpret_cast<intptr_t>(from), static_cast<long>(bytes));
  if (bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  backing->bytes = static_cast<size_t>(bytes);
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical_st{backing});
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
