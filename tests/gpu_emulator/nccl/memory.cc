// ncclMemAlloc and ncclMemFree: memory that can be a window.
#include <cuda.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "nccl/communicator.h"
#include "nccl/nccl_numbers.h"

namespace emulator::nccl {
namespace {

std::mutex& Mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

// Bytes by address.
std::map<CUdeviceptr, size_t>& Allocations() {
  static auto* const allocations = new std::map<CUdeviceptr, size_t>;
  return *allocations;
}

// The GPUs of this process that may use the memory of `device`: itself and its peers.
std::vector<CUmemAccessDesc> AccessOf(CUdevice device) {
  int count = 0;
  cuDeviceGetCount(&count);
  std::vector<CUmemAccessDesc> access;
  for (CUdevice other = 0; other < count; ++other) {
    int reaches = other == device ? 1 : 0;
    if (reaches == 0) cuDeviceCanAccessPeer(&reaches, other, device);
    if (reaches != 0) access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {other}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
  return access;
}

}  // namespace

extern "C" int ncclMemAlloc(void** memory, size_t bytes) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUdevice device = 0;
  size_t granularity = 0;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS) return kUnhandledCudaError;
  properties.location.id = device;
  if (cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  const size_t whole = (bytes + granularity - 1) / granularity * granularity;
  const std::vector<CUmemAccessDesc> access = AccessOf(device);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  if (cuMemCreate(&handle, whole, &properties, 0) != CUDA_SUCCESS) return kUnhandledCudaError;
  if (cuMemAddressReserve(&address, whole, granularity, 0, 0) != CUDA_SUCCESS ||
      cuMemMap(address, whole, 0, handle, 0) != CUDA_SUCCESS ||
      cuMemSetAccess(address, whole, access.data(), access.size()) != CUDA_SUCCESS) {
    return kUnhandledCudaError;
  }
  cuMemRelease(handle);  // the mapping keeps it
  const std::lock_guard<std::mutex> lock(Mutex());
  Allocations()[address] = whole;
  *memory = reinterpret_cast<void*>(address);
  return kSuccess;
}

extern "C" int ncclMemFree(void* memory) {
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  size_t bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(Mutex());
    const auto found = Allocations().find(address);
    Demand(found != Allocations().end(), "ncclMemFree of what ncclMemAlloc did not give");
    bytes = found->second;
    Allocations().erase(found);
  }
  const bool freed = cuMemUnmap(address, bytes) == CUDA_SUCCESS && cuMemAddressFree(address, bytes) == CUDA_SUCCESS;
  return freed ? kSuccess : kUnhandledCudaError;
}

}  // namespace emulator::nccl
