// Virtual memory management: reserved addresses, physical memory, mappings and rights to them.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driver/blocking.h"
#include "driver/contexts.h"
#include "driver/generic_handles.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/multicast.h"
#include "driver/objects.h"
#include "driver/settings.h"
#include "ptx/ptx.h"

namespace emulator {
namespace {

// Address -> bytes of each reservation. Requires Global().
std::map<uint64_t, size_t>& Reservations() {
  static auto* reservations = new std::map<uint64_t, size_t>;
  return *reservations;
}

bool IsReserved(uint64_t address, size_t bytes) {
  auto at = Reservations().upper_bound(address);
  if (at == Reservations().begin()) return false;
  --at;
  return address + bytes <= at->first + at->second;
}

bool IsMapped(const Range& range) { return range.kind == Kind::kVirtual || range.kind == Kind::kMulticast; }

// The mappings that make up [address, address + bytes) without a gap, or none. Requires Global().
std::vector<std::map<uintptr_t, Range>::iterator> Mappings(uint64_t address, size_t bytes) {
  std::vector<std::map<uintptr_t, Range>::iterator> mappings;
  uint64_t at = address;
  while (at < address + bytes) {
    const auto found = Ranges().find(at);
    if (found == Ranges().end() || !IsMapped(found->second)) return {};
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
  return CheckHandleTypes(static_cast<unsigned>(properties->requestedHandleTypes), "physical memory");
}

// Devices that have access to mappings.
std::set<int> DevicesWithAccess(uint64_t address, size_t bytes) {
  const Lock lock(Global());
  std::set<int> devices;
  for (const auto mapping : Mappings(address, bytes)) {
    for (const auto& [device, rights] : mapping->second.access) devices.insert(device);
  }
  return devices;
}

int RightsOf(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
         : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                     : PROT_NONE;
}

// Whether a device can have access to a mapping.
CUresult CheckLocation(const CUmemLocation& location, const Range& mapping) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || !IsDevice(location.id)) {
    Complain("refused: cuMemSetAccess for location type %d, %d", static_cast<int>(location.type), location.id);
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const int gpu = Physical(location.id);
  if (mapping.kind == Kind::kMulticast ? IsInTeam(*mapping.multicast, gpu)
                                       : mapping.backing->gpu == gpu || MayMap(mapping.backing->gpu, gpu)) {
    return CUDA_SUCCESS;
  }
  Complain("cuMemSetAccess: device %d does not reach this memory, which is %s", location.id,
           mapping.kind == Kind::kMulticast ? "a multicast object without it"
                                            : ("of GPU " + std::to_string(mapping.backing->gpu)).c_str());
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult SetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  const Lock lock(Global());
  const auto mappings = Mappings(pointer, bytes);
  if (mappings.empty()) {
    Complain("%s: 0x%llx and %zu bytes behind it are not one or more whole mappings", "cuMemSetAccess", pointer, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    for (const auto mapping : mappings) {
      const CUresult result = CheckLocation(access[i].location, mapping->second);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  for (const auto mapping : mappings) {
    for (size_t i = 0; i < count; ++i) mapping->second.access[access[i].location.id] = RightsOf(access[i].flags);
    if (mapping->second.kind == Kind::kMulticast) continue;
    // Devices of a process share its view, so pages have the rights that any of them has.
    int rights = PROT_NONE;
    for (const auto& [device, right] : mapping->second.access) rights |= right;
    mprotect(DeviceView(mapping->first), mapping->second.bytes, rights);
  }
  ptx::ForgetAccessibleRanges();
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CheckProperties(properties);
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long flags) {
  CheckGranular(__func__, "number of bytes", bytes);
  if (bytes == 0 || (alignment & (alignment - 1)) != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
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
  CheckGranular(__func__, "number of bytes", bytes);
  if (bytes == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  static std::atomic<bool> was_full{false};
  if (Physical(properties->location.id) == FullGpu() && !was_full.exchange(true)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto backing = NewBacking(bytes, properties->location.id);
  if (backing == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t fill_at = NewAddresses(bytes, kGranularity);
  if (!MapView(fill_at, *backing, bytes, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
  FillFresh(fill_at, bytes);
  UnmapView(fill_at, bytes);
  backing->properties = *properties;
  backing->is_virtual = true;
  *handle = NewHandle({std::move(backing), nullptr});
  TRACE("%s of %zu bytes on device %d: 0x%llx", __func__, bytes, properties->location.id, *handle);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  CheckGranular(__func__, "address", pointer);
  CheckGranular(__func__, "number of bytes", bytes);
  Shareable mapped;
  {
    const Lock lock(Global());
    mapped = HandleOf(handle, __func__);
  }
  const bool is_memory = mapped.memory != nullptr;
  if (!is_memory) WaitForTeam(*mapped.multicast, __func__);
  const Lock lock(Global());
  const size_t whole = is_memory ? mapped.memory->bytes : BytesOf(*mapped.multicast);
  if (offset != 0 || flags != 0 || bytes == 0 || bytes > whole) return CUDA_ERROR_INVALID_VALUE;
  if (!IsReserved(pointer, bytes)) {
    Complain("%s: 0x%llx and %zu bytes behind it are not reserved", __func__, pointer, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto next = Ranges().lower_bound(pointer);
  if (Find(pointer) != Ranges().end() || (next != Ranges().end() && next->first < pointer + bytes)) {
    Complain("%s: memory is mapped there already: %s", __func__, Describe(pointer).c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (is_memory && !MapView(pointer, *mapped.memory, bytes, PROT_NONE)) return CUDA_ERROR_OUT_OF_MEMORY;
  Range range{bytes, is_memory ? Kind::kVirtual : Kind::kMulticast, 0, mapped.memory, NextId(), __func__};
  if (is_memory) range.device = mapped.memory->device;
  range.multicast = mapped.multicast;
  Ranges()[pointer] = std::move(range);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  MayWaitFor(DevicesWithAccess(pointer, bytes), __func__);
  const Lock lock(Global());
  const auto mappings = Mappings(pointer, bytes);
  if (mappings.empty()) {
    Complain("%s: 0x%llx and %zu bytes behind it are not one or more whole mappings", __func__, pointer, bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto mapping : mappings) {
    if (mapping->second.kind == Kind::kVirtual) UnmapView(mapping->first, mapping->second.bytes);
    Forget(mapping, __func__);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  CheckGranular(__func__, "address", pointer);
  CheckGranular(__func__, "number of bytes", bytes);
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = SetAccess(pointer, bytes, access, count);
  if (result == CUDA_SUCCESS) MayWaitFor(DevicesWithAccess(pointer, bytes), __func__);
  return result;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr pointer) {
  const Lock lock(Global());
  const auto at = Find(pointer);
  if (at == Ranges().end() || !IsMapped(at->second)) return CUDA_ERROR_INVALID_VALUE;
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
  if (at == Ranges().end() || !IsMapped(at->second)) return CUDA_ERROR_INVALID_VALUE;
  *handle = NewHandle({at->second.backing, at->second.multicast});
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  const Lock lock(Global());
  const Shareable& physical = HandleOf(handle, __func__);
  if (properties == nullptr || physical.memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = physical.memory->properties;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
