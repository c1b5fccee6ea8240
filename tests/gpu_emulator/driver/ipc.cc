// Legacy IPC handles of device memory.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "driver/contexts.h"
#include "driver/memory.h"
#include "driver/objects.h"

namespace emulator {

extern "C" {

// IPC: the handle names the memfd of the owner, which a peer opens under /proc.
struct IpcHandle {
  int pid, fd;
  size_t bytes;
};
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  const Lock lock(Global());
  const auto at = Find(pointer);
  if (at == Ranges().end() || at->second.backing == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const IpcHandle content{getpid(), at->second.backing->fd, at->second.backing->bytes};
  memset(handle, 0, sizeof(*handle));
  memcpy(handle, &content, sizeof(content));
  return CUDA_SUCCESS;
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned) {
  IpcHandle content;
  memcpy(&content, &handle, sizeof(content));
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", content.pid, content.fd);
  auto backing = std::make_shared<Backing>();
  backing->fd = open(path, O_RDWR | O_CLOEXEC);
  backing->bytes = content.bytes;
  if (backing->fd < 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(Global());
  void* memory = MapBacking(backing, content.bytes, 0, nullptr);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  Ranges()[*pointer] = Range{content.bytes, Kind::kDevice, CurrentDevice(), backing, 0, true, NextId()};
  DeviceOf(CurrentDevice()).used += backing->bytes;
  return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) { return Free(pointer); }

}  // extern "C"

}  // namespace emulator
