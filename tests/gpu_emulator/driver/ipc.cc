// Legacy IPC handles of device memory: of whole cuMemAlloc allocations only, and for other processes only.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/objects.h"
#include "driver/settings.h"

namespace emulator {
namespace {

// The content of a handle: it names the file of the owner, which a peer opens under /proc.
struct IpcHandle {
  uint64_t mark;
  int pid, fd;
  int gpu;  // of the machine
  size_t bytes;
};
constexpr uint64_t kMark = 0x6770755f656d7531;
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

}  // namespace

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  const auto at = Find(pointer);
  if (at == Ranges().end() || at->second.kind != Kind::kDevice) {
    Complain("%s: legacy IPC is for memory of cuMemAlloc: %s", __func__, Describe(pointer).c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  const IpcHandle content{kMark, getpid(), at->second.backing->fd, Physical(at->second.device), at->second.bytes};
  memset(handle, 0, sizeof(*handle));
  memcpy(handle, &content, sizeof(content));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned flags) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  IpcHandle content;
  memcpy(&content, &handle, sizeof(content));
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || content.mark != kMark) return CUDA_ERROR_INVALID_VALUE;
  if (content.pid == getpid()) {
    Complain("%s: the handle is one of this process, which cannot open it", __func__);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (content.gpu != Physical(CurrentDevice()) && !MayMap(content.gpu, Physical(CurrentDevice()))) {
    Complain("%s: GPUs %d and %d do not reach each other", __func__, content.gpu, Physical(CurrentDevice()));
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", content.pid, content.fd);
  auto backing = std::make_shared<Backing>();
  backing->fd = open(path, O_RDWR | O_CLOEXEC);
  if (backing->fd < 0) return CUDA_ERROR_INVALID_VALUE;
  backing->bytes = content.bytes;
  backing->device = VisibleAs(content.gpu);
  backing->gpu = content.gpu;
  const Lock lock(Global());
  const uint64_t address = NewAddresses(content.bytes, kGranularity);
  if (!MapView(address, *backing, content.bytes, PROT_READ | PROT_WRITE)) return CUDA_ERROR_MAP_FAILED;
  Ranges()[address] = Range{content.bytes, Kind::kImported, CurrentDevice(), std::move(backing), NextId(), __func__};
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  const CUresult result = RequireContext(__func__);
  if (result != CUDA_SUCCESS) return result;
  const Lock lock(Global());
  const auto at = Ranges().find(pointer);
  if (at == Ranges().end() || at->second.kind != Kind::kImported) {
    Die("%s: this is no opened memory: %s", __func__, Describe(pointer).c_str());
  }
  UnmapView(pointer, at->second.bytes);
  Forget(at, __func__);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
