// Host memory that the driver knows: pinned, registered and managed.
#include <cuda.h>
#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <iterator>
#include <string>
#include <utility>

#include "driver/blocking.h"
#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "ptx/ptx.h"

namespace emulator {
namespace {

constexpr unsigned char kFreshByte = 0xa5;
// Freed pinned memory stays without access for so many more frees, so that a late read is noticed.
constexpr size_t kQuarantine = 256;

size_t Pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

CUresult AllocateHost(void** memory, size_t bytes, Kind kind, const char* call) {
  const CUresult result = RequireContext(call);
  if (result != CUDA_SUCCESS) return result;
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pages = mmap(nullptr, Pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(pages, kFreshByte, bytes);
  {
    const Lock lock(Global());
    const CUresult safe = CheckSafe(call);
    if (safe != CUDA_SUCCESS) return safe;
    Ranges()[reinterpret_cast<uintptr_t>(pages)] = Range{bytes, kind, CurrentDevice(), nullptr, NextId(), call};
    *memory = pages;
  }
  MayWaitFor(WithPeers(CurrentDevice()), call);
  return CUDA_SUCCESS;
}

// True if a range that the driver knows begins in or reaches into [first, first + bytes). Requires Global().
bool Overlaps(uintptr_t first, size_t bytes) {
  if (Find(first) != Ranges().end()) return true;
  const auto next = Ranges().lower_bound(first);
  return next != Ranges().end() && next->first < first + bytes;
}

}  // namespace

extern "C" {

CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  constexpr unsigned kFlags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if ((flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  return AllocateHost(memory, bytes, Kind::kHost, __func__);
}

CUresult cuMemAllocHost(void** memory, size_t bytes) { return AllocateHost(memory, bytes, Kind::kHost, __func__); }

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  void* memory = nullptr;
  const CUresult result = AllocateHost(&memory, bytes, Kind::kManaged, __func__);
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return result;
}

CUresult cuMemFreeHost(void* memory) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  if (memory == nullptr) return CUDA_SUCCESS;
  {
    const Lock lock(Global());
    const CUresult safe = CheckSafe(__func__);
    if (safe != CUDA_SUCCESS) return safe;
  }
  MayWaitFor(WithPeers(CurrentDevice()), __func__);
  const Lock lock(Global());
  const auto at = Ranges().find(reinterpret_cast<uintptr_t>(memory));
  if (at == Ranges().end() || at->second.kind != Kind::kHost) {
    Die("%s: this is no pinned memory: %s", __func__, Describe(reinterpret_cast<uintptr_t>(memory)).c_str());
  }
  static auto* quarantine = new std::deque<std::pair<void*, size_t>>;
  mprotect(memory, Pages(at->second.bytes), PROT_NONE);
  quarantine->emplace_back(memory, at->second.bytes);
  Forget(at, __func__);
  if (quarantine->size() > kQuarantine) {
    munmap(quarantine->front().first, Pages(quarantine->front().second));
    ForgetFreed(reinterpret_cast<uintptr_t>(quarantine->front().first));
    quarantine->pop_front();
  }
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void* memory, size_t bytes, unsigned flags) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  constexpr unsigned kFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  if (memory == nullptr || bytes == 0 || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto first = reinterpret_cast<uintptr_t>(memory);
  const Lock lock(Global());
  const CUresult safe = CheckSafe(__func__);
  if (safe != CUDA_SUCCESS) return safe;
  if (Overlaps(first, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Ranges()[first] = Range{bytes, Kind::kRegistered, CurrentDevice(), nullptr, NextId(), __func__};
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* memory) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  const CUresult safe = CheckSafe(__func__);
  if (safe != CUDA_SUCCESS) return safe;
  const auto at = Ranges().find(reinterpret_cast<uintptr_t>(memory));
  if (at == Ranges().end() || at->second.kind != Kind::kRegistered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  Ranges().erase(at);  // the memory itself lives on
  ptx::ForgetAccessibleRanges();
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* pointer, void* memory, unsigned flags) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const Lock lock(Global());
  const auto at = Find(address);
  if (flags != 0 || at == Ranges().end() || IsDeviceMemory(at->second)) return CUDA_ERROR_INVALID_VALUE;
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* memory) {
  const Lock lock(Global());
  const auto at = Find(reinterpret_cast<uintptr_t>(memory));
  if (at == Ranges().end() || at->second.kind != Kind::kHost) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
