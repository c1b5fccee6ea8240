// What the driver knows of a pointer.
#include <cuda.h>

#include "driver/contexts.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"

namespace emulator {

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  const Lock lock(Global());
  const auto at = Find(pointer);
  const bool known = at != Ranges().end();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUcontext*>(data) = &DeviceOf(at->second.device).primary;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<unsigned*>(data) = IsDeviceMemory(at->second) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      // The host cannot read device memory.
      if (!known || IsDeviceAddress(pointer)) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<unsigned*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = known && at->second.kind == Kind::kManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<unsigned long long*>(data) = at->second.id;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<int*>(data) = at->second.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<bool*>(data) = known && at->second.kind == Kind::kDevice;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<CUdeviceptr*>(data) = at->first;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<size_t*>(data) = at->second.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<bool*>(data) = known;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      // Only memory of cuMemCreate is exported by handles, and as it was created.
      if (!known) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<unsigned*>(data) = at->second.kind == Kind::kVirtual
                                          ? static_cast<unsigned>(at->second.backing->properties.requestedHandleTypes)
                                          : static_cast<unsigned>(CU_MEM_HANDLE_TYPE_NONE);
      return CUDA_SUCCESS;
    default:
      Complain("refused: pointer attribute %d", static_cast<int>(attribute));
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  for (unsigned i = 0; i < count; ++i) {
    // Unknown pointers are no error here: zeros.
    if (cuPointerGetAttribute(data[i], attributes[i], pointer) != CUDA_SUCCESS) {
      switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
          *static_cast<unsigned*>(data[i]) = 0;
          break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
          *static_cast<int*>(data[i]) = -2;
          break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
          *static_cast<CUdeviceptr*>(data[i]) = pointer;
          break;
        default:
          *static_cast<uint64_t*>(data[i]) = 0;
          break;
      }
    }
  }
  return CUDA_SUCCESS;
}
CUresult cuPointerSetAttribute(const void*, CUpointer_attribute, CUdeviceptr) { return CUDA_SUCCESS; }

}  // extern "C"

}  // namespace emulator
