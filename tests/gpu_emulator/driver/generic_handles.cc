// Handles of physical memory and of multicast objects: release, export and import.
#include "driver/generic_handles.h"

#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "driver/contexts.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/multicast.h"
#include "driver/objects.h"
#include "driver/settings.h"

namespace emulator {
namespace {

// Requires Global().
std::map<CUmemGenericAllocationHandle, Shareable>& Shareables() {
  static auto* shareables = new std::map<CUmemGenericAllocationHandle, Shareable>;
  return *shareables;
}
std::set<CUmemGenericAllocationHandle>& Released() {
  static auto* released = new std::set<CUmemGenericAllocationHandle>;
  return *released;
}

// The content of a fabric handle: it names the file of the exporter, which an importer opens under /proc.
struct FabricContent {
  uint64_t mark;
  FileOfProcess file;
};
constexpr uint64_t kFabricMark = 0x6770755f66616231;
static_assert(sizeof(FabricContent) <= sizeof(CUmemFabricHandle));

// The name that the file in memory was given; "" for other files.
std::string NameOfFile(int fd) {
  char path[64], target[128];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, target, sizeof(target) - 1);
  if (length <= 0) return "";
  const std::string text(target, static_cast<size_t>(length));
  constexpr char kBegin[] = "/memfd:";
  const size_t end = text.find(" (deleted)");
  return text.rfind(kBegin, 0) == 0 && end != std::string::npos ? text.substr(strlen(kBegin), end - strlen(kBegin))
                                                                : "";
}

// Takes the file. Null if it is none of an emulated driver's.
Shareable Imported(int fd, CUmemAllocationHandleType type) {
  const std::string name = NameOfFile(fd), memory = MemoryFileName(0);
  if (name == kMulticastFileName) return {nullptr, OpenMulticast(fd)};
  const std::string prefix = memory.substr(0, memory.size() - 1);
  if (name.rfind(prefix, 0) != 0) return {};
  auto backing = std::make_shared<Backing>();
  backing->fd = fd;
  backing->bytes = static_cast<size_t>(lseek(fd, 0, SEEK_END));
  backing->gpu = atoi(name.c_str() + prefix.size());
  backing->device = VisibleAs(backing->gpu);
  backing->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  backing->properties.requestedHandleTypes = type;
  backing->properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  backing->properties.location.id = backing->device;
  backing->is_virtual = true;
  return {std::move(backing), nullptr};
}

}  // namespace

CUmemGenericAllocationHandle NewHandle(Shareable shareable) {
  const Lock lock(Global());
  const CUmemGenericAllocationHandle handle = 0xe000000000000000 + NextId();
  Shareables()[handle] = std::move(shareable);
  return handle;
}

Shareable& HandleOf(CUmemGenericAllocationHandle handle, const char* call) {
  const auto at = Shareables().find(handle);
  if (at != Shareables().end()) return at->second;
  const bool released = Released().count(handle) != 0;
  Die("%s: 0x%llx is no handle of memory%s", call, handle, released ? " any more: cuMemRelease released it" : "");
}

void CheckGranular(const char* call, const char* what, uint64_t value) {
  if (value % kGranularity == 0) return;
  Die("%s: the %s, 0x%lx, is no multiple of the granularity, 0x%zx", call, what, value, kGranularity);
}

CUresult CheckHandleTypes(unsigned types, const char* call) {
  constexpr unsigned kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, kFabric = CU_MEM_HANDLE_TYPE_FABRIC;
  if ((types & ~(kFile | kFabric)) != 0 || ((types & kFabric) != 0 && !HasFabric())) {
    Complain("refused: %s with handle types 0x%x; the emulated GPU exports memory as POSIX file descriptors%s", call,
             types, HasFabric() ? " and fabric handles only" : " only (GPU_EMULATOR_FABRIC)");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if ((types & kFabric) == 0 || HasFabricChannel()) return CUDA_SUCCESS;
  Complain("%s: fabric handles need an IMEX channel, which this process has not", call);
  return CUDA_ERROR_NOT_PERMITTED;
}

std::string MemoryFileName(int gpu) { return "gpu_emulator:" + std::to_string(gpu); }

int OpenFile(const FileOfProcess& file) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", file.pid, file.fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

extern "C" {

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Lock lock(Global());
  HandleOf(handle, __func__);
  Shareables().erase(handle);
  Released().insert(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  const Lock lock(Global());
  const Shareable& exported = HandleOf(handle, __func__);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CheckHandleTypes(type, __func__);
  if (result != CUDA_SUCCESS) return result;
  const bool is_memory = exported.memory != nullptr;
  const unsigned requested = is_memory ? static_cast<unsigned>(exported.memory->properties.requestedHandleTypes)
                                       : HandleTypesOf(*exported.multicast);
  if ((requested & type) == 0) {
    Complain("%s: handle type %d was not requested for this memory when it was created", __func__,
             static_cast<int>(type));
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd = is_memory ? exported.memory->fd : FileOf(*exported.multicast);
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    *static_cast<int*>(out) = dup(fd);
    return CUDA_SUCCESS;
  }
  const FabricContent content{kFabricMark, {getpid(), fd}};
  memset(out, 0, sizeof(CUmemFabricHandle));
  memcpy(out, &content, sizeof(content));
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* from,
                                        CUmemAllocationHandleType type) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CheckHandleTypes(type, __func__);
  if (result != CUDA_SUCCESS) return result;
  int fd = -1;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    FabricContent content{};
    memcpy(&content, from, sizeof(content));
    fd = content.mark == kFabricMark ? OpenFile(content.file) : -1;
  } else {
    fd = dup(static_cast<int>(reinterpret_cast<intptr_t>(from)));
  }
  Shareable imported = fd < 0 ? Shareable{} : Imported(fd, type);
  if (imported.memory == nullptr && imported.multicast == nullptr) {
    Complain("%s: this is no exported memory, or its process has released it", __func__);
    if (fd >= 0) close(fd);
    return CUDA_ERROR_INVALID_VALUE;
  }
  TRACE("%s (%s): %s", __func__, type == CU_MEM_HANDLE_TYPE_FABRIC ? "fabric" : "file",
        imported.multicast != nullptr ? "multicast object" : "memory");
  *handle = NewHandle(std::move(imported));
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
