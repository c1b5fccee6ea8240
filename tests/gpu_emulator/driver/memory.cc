// Device memory by cuMemAlloc, and pinned host memory.
#include "driver/memory.h"

#include <cuda.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver/contexts.h"
#include "driver/log.h"
#include "driver/objects.h"
#include "driver/settings.h"
#include "driver/streams.h"

namespace emulator {

Backing::~Backing() {
  if (fd >= 0) close(fd);
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

void* MapBacking(const std::shared_ptr<Backing>& backing, size_t bytes, size_t offset, void* at) {
  void* memory = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0),
                      backing->fd, static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : memory;
}
std::shared_ptr<Backing> NewBacking(size_t bytes, int device) {
  auto backing = std::make_shared<Backing>();
  backing->bytes = (bytes + 4095) / 4096 * 4096;
  backing->device = device;
  backing->fd = static_cast<int>(syscall(SYS_memfd_create, "gpu_emulator", MFD_CLOEXEC));
  if (backing->fd < 0 || ftruncate(backing->fd, static_cast<off_t>(backing->bytes)) != 0) return nullptr;
  return backing;
}
CUresult Allocate(CUdeviceptr* pointer, size_t bytes, int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  if (DeviceOf(device).used + bytes > TotalMemory()) return CUDA_ERROR_OUT_OF_MEMORY;
  auto backing = NewBacking(bytes, device);
  if (backing == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = MapBacking(backing, backing->bytes, 0, nullptr);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  DeviceOf(device).used += backing->bytes;
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  Ranges()[*pointer] = Range{bytes, Kind::kDevice, device, backing, 0, false, NextId()};
  return CUDA_SUCCESS;
}
CUresult Free(CUdeviceptr pointer) {
  if (pointer == 0) return CUDA_SUCCESS;
  const Lock lock(Global());
  const auto at = Ranges().find(pointer);
  if (at == Ranges().end()) return CUDA_ERROR_INVALID_VALUE;
  if (at->second.backing != nullptr) {
    munmap(reinterpret_cast<void*>(pointer), at->second.backing->bytes);
    DeviceOf(at->second.device).used -= at->second.backing->bytes;
  }
  Ranges().erase(at);
  return CUDA_SUCCESS;
}

extern "C" {

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  const Lock lock(Global());
  *total = TotalMemory();
  *free = TotalMemory() - DeviceOf(CurrentDevice()).used;
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  const CUresult result = Allocate(pointer, bytes, CurrentDevice());
  TRACE("cuMemAlloc %zu -> %p (%d)", bytes, reinterpret_cast<void*>(*pointer), result);
  return result;
}
CUresult cuMemFree(CUdeviceptr pointer) { return Free(pointer); }
CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned) {
  return Allocate(pointer, bytes, CurrentDevice());
}
CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream) {
  return Allocate(pointer, bytes, CurrentDevice());
}
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  return Enqueue(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, [=] { Free(pointer); });
}
CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  const Lock lock(Global());
  *memory = mmap(nullptr, (bytes + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Ranges()[reinterpret_cast<uintptr_t>(*memory)] =
      Range{bytes, Kind::kHost, CurrentDevice(), nullptr, 0, false, NextId()};
  return CUDA_SUCCESS;
}
CUresult cuMemAllocHost(void** memory, size_t bytes) { return cuMemHostAlloc(memory, bytes, 0); }
CUresult cuMemFreeHost(void* memory) {
  const Lock lock(Global());
  const auto at = Ranges().find(reinterpret_cast<uintptr_t>(memory));
  if (at == Ranges().end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(memory, (at->second.bytes + 4095) / 4096 * 4096);
  Ranges().erase(at);
  return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void* memory, size_t bytes, unsigned) {
  const Lock lock(Global());
  Ranges()[reinterpret_cast<uintptr_t>(memory)] =
      Range{bytes, Kind::kRegistered, CurrentDevice(), nullptr, 0, false, NextId()};
  return CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void* memory) {
  const Lock lock(Global());
  Ranges().erase(reinterpret_cast<uintptr_t>(memory));
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* pointer, void* memory, unsigned) {
  return *pointer = reinterpret_cast<CUdeviceptr>(memory), CUDA_SUCCESS;
}
CUresult cuMemHostGetFlags(unsigned* flags, void*) { return *flags = 0, CUDA_SUCCESS; }
CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  const Lock lock(Global());
  const auto at = Find(pointer);
  if (at == Ranges().end()) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = at->first;
  if (bytes != nullptr) *bytes = at->second.bytes;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
