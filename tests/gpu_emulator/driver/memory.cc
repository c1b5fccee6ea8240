// Physical memory, ranges of addresses, and the rights of GPU work to them.
#include "driver/memory.h"

#include <cuda.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "driver/blocking.h"
#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/generic_handles.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/multicast.h"
#include "driver/objects.h"
#include "driver/scheduler.h"
#include "driver/settings.h"
#include "ptx/ptx.h"

namespace emulator {
namespace {

// Larger allocations are filled to here only, so that a pool of most of the GPU does not take the host's memory.
constexpr size_t kMostFilled = size_t{1} << 30;

size_t RoundedUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

struct Freed {
  size_t bytes = 0;
  std::string made_by, freed_by;
};

// By first address. Requires Global().
std::map<uintptr_t, Freed>& FreedRanges() {
  static auto* freed = new std::map<uintptr_t, Freed>;
  return *freed;
}

std::string Hex(uint64_t value) {
  char text[32];
  snprintf(text, sizeof(text), "0x%lx", value);
  return text;
}

const char* NameOf(Use use) { return use == Use::kRead || use == Use::kCopyFrom ? "reads" : "writes"; }

}  // namespace

Backing::~Backing() {
  if (fd >= 0) close(fd);
  if (!counted) return;
  const Lock lock(Global());
  DeviceOf(device).used -= bytes;
}

std::map<uintptr_t, Range>& Ranges() {
  static auto* ranges = new std::map<uintptr_t, Range>;
  return *ranges;
}

std::map<uintptr_t, Range>::iterator Find(uintptr_t address) {
  auto at = Ranges().upper_bound(address);
  if (at == Ranges().begin()) return Ranges().end();
  --at;
  return address < at->first + at->second.bytes ? at : Ranges().end();
}

bool IsDeviceMemory(const Range& range) { return range.kind != Kind::kHost && range.kind != Kind::kRegistered; }

void Forget(std::map<uintptr_t, Range>::iterator range, const char* call) {
  FreedRanges()[range->first] = {range->second.bytes, range->second.call, call};
  Ranges().erase(range);
  ptx::ForgetAccessibleRanges();
}

void ForgetFreed(uintptr_t first) { FreedRanges().erase(first); }

std::string Describe(uintptr_t address) {
  const std::string hex = Hex(address);
  if (IsMulticast(address)) return hex + " is a multicast address, which only multimem instructions may use";
  const auto live = Find(address);
  if (live != Ranges().end()) {
    return hex + " lies " + std::to_string(address - live->first) + " bytes into " +
           std::to_string(live->second.bytes) + " bytes by " + live->second.call;
  }
  const auto after = FreedRanges().upper_bound(address);
  if (after != FreedRanges().begin()) {
    const auto& [first, freed] = *std::prev(after);
    if (address < first + freed.bytes) {
      return hex + " lies " + std::to_string(address - first) + " bytes into " + std::to_string(freed.bytes) +
             " bytes by " + freed.made_by + " that " + freed.freed_by + " freed";
    }
  }
  const auto next = Ranges().upper_bound(address);
  if (IsDeviceAddress(address) && next != Ranges().begin()) {
    const auto& [first, range] = *std::prev(next);
    return hex + " belongs to no memory; it is " + std::to_string(address - first - range.bytes) + " bytes behind " +
           std::to_string(range.bytes) + " bytes by " + range.call;
  }
  return hex + " belongs to no memory of the driver";
}

bool IsRemote(const Backing& backing, int device) { return backing.gpu != Physical(device); }

namespace {

bool Writes(Use use) { return use == Use::kWrite || use == Use::kCopyTo; }

// "" if `device` may use the range so, or a part of a sentence that says why not. Requires Global().
std::string WhyNot(const Range& range, Use use, int device) {
  const std::string who = "device " + std::to_string(device);
  switch (range.kind) {
    case Kind::kVirtual: {
      const auto access = range.access.find(device);
      const int needed = Writes(use) ? PROT_WRITE : PROT_READ;
      if (access != range.access.end() && (access->second & needed) != 0) return "";
      return "cuMemSetAccess gave " + who + " no right to it";
    }
    case Kind::kMulticast:
      return "only multimem instructions use multicast addresses";
    case Kind::kPool:
      if (device == range.device || PoolAllows(range.pool, device)) return "";
      return "cuMemPoolSetAccess gave " + who + " no right to it";
    case Kind::kDevice:
    case Kind::kGlobal:
      if (use == Use::kCopyFrom || use == Use::kCopyTo || MayUseMemoryOf(device, range.device)) return "";
      return "cuCtxEnablePeerAccess gave " + who + " no right to memory of device " + std::to_string(range.device);
    case Kind::kImported:
      if (device == range.device) return "";
      return "device " + std::to_string(range.device) + " opened it, and " + who + " did not";
    default:
      return "";
  }
}

}  // namespace

void CheckAccess(uint64_t address, size_t bytes, Use use, int device, const char* operation) {
  const Lock lock(Global());
  const uint64_t end = address + bytes;
  for (uint64_t at = address; at < end;) {
    const auto found = Find(at);
    if (found == Ranges().end()) {
      const bool freed = Describe(at).find(" freed") != std::string::npos;
      if (!IsDeviceAddress(at) && !freed && at == address) return;  // pageable
      Die("%s %s %zu bytes at 0x%lx, but %s", operation, NameOf(use), bytes, address, Describe(at).c_str());
    }
    const Range& range = found->second;
    const std::string why_not = WhyNot(range, use, device);
    if (!why_not.empty()) {
      Die("%s %s %zu bytes at 0x%lx, but %s: %s", operation, NameOf(use), bytes, address, why_not.c_str(),
          Describe(at).c_str());
    }
    if (range.kind == Kind::kVirtual) {
      at = found->first + range.bytes;  // neighbouring mappings may be used as one
      continue;
    }
    if (end > found->first + range.bytes) {
      Die("%s %s %zu bytes at 0x%lx, %lu bytes beyond the end: %s", operation, NameOf(use), bytes, address,
          end - found->first - range.bytes, Describe(at).c_str());
    }
    return;
  }
}

std::string MayAccess(uint64_t address, size_t bytes, Use use, int device, uint64_t* begin, uint64_t* end,
                      bool* remote) {
  const Lock lock(Global());
  *begin = *end = 0;
  *remote = false;
  // Neighbouring mappings may be used as one.
  for (auto at = Find(address); at != Ranges().end(); at = Ranges().find(*end)) {
    const Range& range = at->second;
    const std::string why_not = WhyNot(range, use, device);
    if (!why_not.empty()) return why_not + ": " + Describe(at->first);
    *remote |= range.backing != nullptr && IsRemote(*range.backing, device);
    if (*begin == 0) *begin = at->first;
    *end = at->first + range.bytes;
    if (address + bytes <= *end) return "";
    if (range.kind != Kind::kVirtual) return Describe(address);
  }
  return Describe(address);
}

int WorkingDevice() { return RunningStream() != nullptr ? RunningStream()->device : CurrentDevice(); }

std::shared_ptr<Backing> NewBacking(size_t bytes, int device) {
  auto backing = std::make_shared<Backing>();
  backing->bytes = RoundedUp(bytes, kPage);
  backing->device = device;
  backing->gpu = Physical(device);
  if (DeviceOf(device).used + backing->bytes > TotalMemory()) return nullptr;
  backing->fd = static_cast<int>(syscall(SYS_memfd_create, MemoryFileName(backing->gpu).c_str(), MFD_CLOEXEC));
  if (backing->fd < 0 || ftruncate(backing->fd, static_cast<off_t>(backing->bytes)) != 0) {
    Complain("no file in memory of %zu bytes: %s", bytes, strerror(errno));
    return nullptr;
  }
  DeviceOf(device).used += backing->bytes;
  backing->counted = true;
  return backing;
}

uint64_t NewAddresses(size_t bytes, size_t alignment) {
  // Processes start at different addresses, so an address of a peer is none of this process.
  static uint64_t next = kDeviceWindow + (static_cast<uint64_t>(getpid()) % 1024 << 32);
  next = RoundedUp(next, alignment);
  const uint64_t address = next;
  next += RoundedUp(bytes, kPage) + kPage;  // with a page between neighbours
  if (next > kDeviceWindow + kDeviceWindowBytes) Die("out of device addresses");
  return address;
}

bool MapView(uint64_t address, const Backing& backing, size_t bytes, int protection) {
  void* view = mmap(DeviceView(address), RoundedUp(bytes, kPage), protection, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                    backing.fd, 0);
  return view != MAP_FAILED;
}

void UnmapView(uint64_t address, size_t bytes) { munmap(DeviceView(address), RoundedUp(bytes, kPage)); }

void FillFresh(uint64_t address, size_t bytes) {
  static constexpr unsigned char kBytes[] = {0xa5, 0x5a, 0xff, 0xcb};
  memset(DeviceView(address), kBytes[Decision(address >> 12) % 4], std::min(bytes, kMostFilled));
}

CUresult Allocate(CUdeviceptr* pointer, size_t bytes, int device, Kind kind, const char* call) {
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  const CUresult safe = CheckSafe(call);
  if (safe != CUDA_SUCCESS) return safe;
  auto backing = NewBacking(bytes, device);
  if (backing == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t address = NewAddresses(bytes, kPage);
  if (!MapView(address, *backing, bytes, PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
  FillFresh(address, RoundedUp(bytes, kPage));
  Ranges()[address] = Range{bytes, kind, device, std::move(backing), NextId(), call};
  *pointer = address;
  TRACE("%s of %zu bytes: 0x%lx", call, bytes, address);
  return CUDA_SUCCESS;
}

void Free(CUdeviceptr pointer, const char* call) {
  const Lock lock(Global());
  const auto at = Ranges().find(pointer);
  if (at == Ranges().end()) Die("%s: this is no allocation: %s", call, Describe(pointer).c_str());
  if (at->second.kind != Kind::kDevice && at->second.kind != Kind::kPool) {
    Die("%s: this is not memory to free so: %s", call, Describe(pointer).c_str());
  }
  UnmapView(pointer, at->second.bytes);
  Forget(at, call);
}

extern "C" {

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  *total = TotalMemory();
  *free = TotalMemory() - DeviceOf(CurrentDevice()).used;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if (HasFailed(CurrentDevice())) return kFailed;
  const CUresult allocated = Allocate(pointer, bytes, CurrentDevice(), Kind::kDevice, __func__);
  if (allocated == CUDA_SUCCESS) MayWaitFor(WithPeers(CurrentDevice()), __func__);
  return allocated;
}

// Waits for the device's work, except for memory of a pool: CUDA's documentation says that there is no implicit
// synchronization for that.
CUresult cuMemFree(CUdeviceptr pointer) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS || pointer == 0) return result;
  int device = -1;
  {
    const Lock lock(Global());
    const CUresult safe = CheckSafe(__func__);
    if (safe != CUDA_SUCCESS) return safe;
    const auto at = Ranges().find(pointer);
    if (at != Ranges().end() && at->second.kind == Kind::kDevice) device = at->second.device;
  }
  if (device >= 0) {
    MayWaitFor(WithPeers(device), __func__);
    WaitForDevice(device);
  }
  Free(pointer, __func__);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  const Lock lock(Global());
  const auto at = Find(pointer);
  if (at == Ranges().end() || !IsDeviceMemory(at->second)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = at->first;
  if (bytes != nullptr) *bytes = at->second.bytes;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
