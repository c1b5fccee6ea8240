// Virtual memory management: reserved addresses, physical memory, and export to other processes.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "ptx/ptx.h"

namespace emulator {
namespace {

// What a CUmemGenericAllocationHandle stands for. Mappings keep the memory when the handle is released.
using PhysicalMemory = std::shared_ptr<Backing>;

// Requires Global(). Handles are numbers that are never given again.
std::map<CUmemGenericAllocationHandle, PhysicalMemory>& Handles() {
  static auto* handles = new std::map<CUmemGenericAllocationHandle, PhysicalMemory>;
  return *handles;
}

// Address -> bytes of each reservation. Requires Global().
std::map<uint64_t, size_t>& Reservations() {
  static auto* reservations = new std::map<uint64_t, size_t>;
  return *reservations;
}

// Requires Global().
PhysicalMemory FindHandle(CUmemGenericAllocationHandle handle, const char* call) {
  const auto at = Handles().find(handle);
  if (at != Handles().end()) return at->second;
  Complain("%s: 0x%llx is no handle of physical memory, or was released", call, handle);
  return nullptr;
}

CUmemGenericAllocationHandle NewHandle(PhysicalMemory physical) {
  const CUmemGenericAllocationHandle handle = 0xe000000000000000 + NextId();
  Handles()[handle] = std::move(physical);
  return handle;
}

bool IsReserved(uint64_t address, size_t bytes) {
  auto at = Reservations().upper_bound(address);
  if (at == Reservations().begin()) return false;
  --at;
  return address + bytes <= at->first + at->second;
}

// The mappings that make up [address, address + bytes) without a gap, or none. Requires Global().
std::vector<std::map<uintptr_t, Range>::iterator> Mappings(uint64_t address, size_t bytes) {
  std::vector<std::map<uintptr_t, Range>::iterator> mappings;
  uint64_t at = address;
  while (at < address + bytes) {
    const auto found = Ranges().find(at);
    if (found == Ranges().end() || found->second.kind != Kind::kVirtual) return {};
    mappings.push_back(found);
    at += found->second.bytes;
  }
  if (at != address + bytes) return {};
  return mappings;
}

CUresult CheckProperties(const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    Complain("refused: physical memory at location type %d", static_cast<int>(properties->location.type));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!IsDevice(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  const auto types = static_cast<unsigned>(properties->requestedHandleTypes);
  if ((types & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0) {
    Complain("refused: handle types 0x%x; the emulated GPU exports memory as POSIX file descriptors only", types);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

// The file descriptor is one of an emulated driver's.
bool IsOurs(int fd) {
  char path[64], target[128];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, target, sizeof(target) - 1);
  if (length <= 0) return false;
  target[length] = '\0';
  return strstr(target, "memfd:gpu_emulator") != nullptr;
}

bool IsGranular(uint64_t value) { return value != 0 && value % kGranularity == 0; }

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CheckProperties(properties);
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  if (!IsGranular(bytes) || (alignment & (alignment - 1)) != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  *pointer = NewAddresses(bytes, alignment < kGranularity ? kGranularity : alignment);
  Reservations()[*pointer] = bytes;
  TRACE("%s of %zu bytes: 0x%llx", __func__, bytes, *pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  const Lock lock(Global());
  const auto at = Reservations().find(pointer);
  if (at == Reservations().end() || at->second != bytes) {
    Complain("%s: 0x%llx of %zu bytes was not reserved so", __func__, pointer, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto mapped = Ranges().lower_bound(pointer);
  if (mapped != Ranges().end() && mapped->first < pointer + bytes) {
    Complain("%s: memory is still mapped there: %s", __func__, Describe(mapped->first).c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  Reservations().erase(at);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  const CUresult result = CheckProperties(properties);
  if (result != CUDA_SUCCESS) return result;
  if (!IsGranular(bytes) || flags != 0) {
    Complain("%s: %zu bytes are no multiple of the granularity, %zu", __func__, bytes, kGranularity);
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Lock lock(Global());
  auto backing = NewBacking(bytes, properties->location.id);
  if (backing == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t fill_at = NewAddresses(bytes, kGranularity);
  if (!MapView(fill_at, *backing, bytes, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
  FillFresh(fill_at, bytes);
  UnmapView(fill_at, bytes);
  backing->properties = *properties;
  backing->is_virtual = true;
  *handle = NewHandle(std::move(backing));
  TRACE("%s of %zu bytes on device %d: 0x%llx", __func__, bytes, properties->location.id, *handle);
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Lock lock(Global());
  if (FindHandle(handle, __func__) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Handles().erase(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const Lock lock(Global());
  const PhysicalMemory physical = FindHandle(handle, __func__);
  if (physical == nullptr || offset != 0 || flags != 0 || !IsGranular(bytes) || pointer % kGranularity != 0 ||
      bytes > physical->bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!IsReserved(pointer, bytes)) {
    Complain("%s: 0x%llx and %zu bytes behind it are not reserved", __func__, pointer, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto next = Ranges().lower_bound(pointer);
  if (Find(pointer) != Ranges().end() || (next != Ranges().end() && next->first < pointer + bytes)) {
    Complain("%s: memory is mapped there already: %s", __func__, Describe(pointer).c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!MapView(pointer, *physical, bytes, PROT_NONE)) return CUDA_ERROR_OUT_OF_MEMORY;
  Ranges()[pointer] = Range{bytes, Kind::kVirtual, physical->device, physical, NextId(), __func__};
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  const Lock lock(Global());
  const auto mappings = Mappings(pointer, bytes);
  if (mappings.empty()) {
    Complain("%s: 0x%llx and %zu bytes behind it are not one or more whole mappings", __func__, pointer, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  UnmapView(pointer, bytes);
  for (const auto mapping : mappings) Forget(mapping, __func__);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  const auto mappings = Mappings(pointer, bytes);
  if (mappings.empty()) {
    Complain("%s: 0x%llx and %zu bytes behind it are not one or more whole mappings", __func__, pointer, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !IsDevice(access[i].location.id)) {
      Complain("refused: %s for location type %d, %d", __func__, static_cast<int>(access[i].location.type),
               access[i].location.id);
      return CUDA_ERROR_INVALID_DEVICE;
    }
    const int rights = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                       : access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                             : PROT_NONE;
    for (const auto mapping : mappings) mapping->second.access[access[i].location.id] = rights;
  }
  // Devices of a process share its view, so pages have the rights that any of them has.
  for (const auto mapping : mappings) {
    int rights = PROT_NONE;
    for (const auto& [device, right] : mapping->second.access) rights |= right;
    mprotect(DeviceView(mapping->first), mapping->second.bytes, rights);
  }
  ptx::ForgetAccessibleRanges();
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  const Lock lock(Global());
  const auto at = Find(pointer);
  if (at == Ranges().end() || at->second.kind != Kind::kVirtual) return CUDA_ERROR_INVALID_VALUE;
  const auto right = at->second.access.find(location->id);
  const int rights = right == at->second.access.end() ? PROT_NONE : right->second;
  *flags = (rights & PROT_WRITE) != 0  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : (rights & PROT_READ) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const Lock lock(Global());
  const auto at = Find(reinterpret_cast<uintptr_t>(address));
  if (at == Ranges().end() || at->second.kind != Kind::kVirtual) return CUDA_ERROR_INVALID_VALUE;
  *handle = NewHandle(at->second.backing);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  const Lock lock(Global());
  const PhysicalMemory physical = FindHandle(handle, __func__);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = physical->properties;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  const Lock lock(Global());
  const PhysicalMemory physical = FindHandle(handle, __func__);
  if (physical == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((physical->properties.requestedHandleTypes & type) == 0) {
    Complain("%s: cuMemCreate did not request handle type %d for this memory", __func__, static_cast<int>(type));
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(out) = dup(physical->fd);
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* from,
                                        CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(from));
  if (!IsOurs(fd)) {
    Complain("%s: file descriptor %d is no exported memory", __func__, fd);
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto backing = std::make_shared<Backing>();
  backing->fd = dup(fd);
  backing->bytes = static_cast<size_t>(lseek(backing->fd, 0, SEEK_END));
  backing->device = CurrentDevice();
  backing->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  backing->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  backing->properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  backing->properties.location.id = backing->device;
  backing->is_virtual = true;
  const Lock lock(Global());
  *handle = NewHandle(std::move(backing));
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
