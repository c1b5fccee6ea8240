#include "tests/nvshmem/gpu/memory_double.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace xla_shmem::testing {
namespace {

constexpr int kInvalidValue = 1;       // CUDA_ERROR_INVALID_VALUE
constexpr int kOutOfMemory = 2;        // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kPeerUnsupported = 217;  // CUDA_ERROR_PEER_ACCESS_UNSUPPORTED

constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

struct Multicast {
  unsigned devices = 0;
  std::set<int> added;
  std::map<int, size_t> bound;  // bytes, by device
};

struct Memory {
  std::mutex mutex;
  std::map<ino_t, Multicast> multicasts;  // by their files
  gpu::MemoryHandle next = 0x1000;
  std::map<gpu::MemoryHandle, int> files;
  std::map<uintptr_t, size_t> reserved;
  std::map<uintptr_t, size_t> mapped;
};

Memory& TheMemory() {
  static auto* const memory = new Memory;
  return *memory;
}

bool IsGranular(size_t bytes) { return bytes != 0 && bytes % kDoubleGranularity == 0; }

char* Pointer(gpu::DeviceAddress address) { return reinterpret_cast<char*>(address); }

int Granularity(size_t* bytes, const gpu::AllocationProperties* properties, int option) {
  if (properties->type != gpu::kAllocationPinned || option != gpu::kGranularityRecommended) return kInvalidValue;
  *bytes = kDoubleGranularity;
  return 0;
}

int Reserve(gpu::DeviceAddress* address, size_t bytes, size_t alignment, gpu::DeviceAddress wanted, uint64_t flags) {
  if (!IsGranular(bytes) || alignment != 0 || wanted != 0 || flags != 0) return kInvalidValue;
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  *address = gpu::AddressOf(memory);
  TheMemory().reserved[*address] = bytes;
  return 0;
}

int FreeAddress(gpu::DeviceAddress address, size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.reserved.find(address);
  if (found == memory.reserved.end() || found->second != bytes) return kInvalidValue;
  const auto mapped = memory.mapped.lower_bound(address);
  if (mapped != memory.mapped.end() && mapped->first < address + bytes) return kInvalidValue;
  munmap(Pointer(address), bytes);
  memory.reserved.erase(found);
  return 0;
}

gpu::MemoryHandle NewHandle(int file) {
  Memory& memory = TheMemory();
  memory.files[++memory.next] = file;
  return memory.next;
}

int Create(gpu::MemoryHandle* handle, size_t bytes, const gpu::AllocationProperties* properties, uint64_t flags) {
  if (!IsGranular(bytes) || flags != 0 || properties->location_type != gpu::kLocationDevice) return kInvalidValue;
  if (properties->device == Refused().create_on) return kOutOfMemory;
  const int file = memfd_create("memory_double", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  *handle = NewHandle(file);
  return 0;
}

int Release(gpu::MemoryHandle handle) {
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  const auto found = TheMemory().files.find(handle);
  if (found == TheMemory().files.end()) return kInvalidValue;
  close(found->second);
  TheMemory().files.erase(found);
  return 0;
}

int Map(gpu::DeviceAddress address, size_t bytes, size_t offset, gpu::MemoryHandle handle, uint64_t flags) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.files.find(handle);
  struct stat file{};
  if (found == memory.files.end() || offset != 0 || flags != 0 || fstat(found->second, &file) != 0 ||
      static_cast<size_t>(file.st_size) != bytes || memory.mapped.count(address) != 0) {
    return kInvalidValue;
  }
  if (mmap(Pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second, 0) == MAP_FAILED) {
    return kOutOfMemory;
  }
  memory.mapped[address] = bytes;
  return 0;
}

int Unmap(gpu::DeviceAddress address, size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.mapped.find(address);
  if (found == memory.mapped.end() || found->second != bytes) return kInvalidValue;
  mmap(Pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  memory.mapped.erase(found);
  return 0;
}

int SetAccess(gpu::DeviceAddress address, size_t bytes, const gpu::MemoryAccess* access, size_t count) {
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  if (TheMemory().mapped.count(address) == 0 || count == 0) return kInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    if (access[i].device == Refused().access_of) return kPeerUnsupported;
    if (access[i].location_type != gpu::kLocationDevice || access[i].flags != gpu::kAccessReadWrite) {
      return kInvalidValue;
    }
  }
  return mprotect(Pointer(address), bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : kInvalidValue;
}

// A fabric handle is the number of the memory that it names, and stays valid while that memory exists.
int Export(void* shareable, gpu::MemoryHandle handle, int type, uint64_t flags) {
  if (Refused().exports_after >= 0 && Refused().exports_after-- == 0) return kNotSupported;
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  const auto found = TheMemory().files.find(handle);
  if (found == TheMemory().files.end() || flags != 0) return kInvalidValue;
  if (type == gpu::kHandleFile) {
    *static_cast<int*>(shareable) = dup(found->second);
  } else {
    memcpy(shareable, &handle, sizeof(handle));
  }
  return 0;
}

int Import(gpu::MemoryHandle* handle, void* shareable, int type) {
  if (Refused().import) return kInvalidValue;
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  int file = -1;
  if (type == gpu::kHandleFile) {
    file = dup(static_cast<int>(reinterpret_cast<uintptr_t>(shareable)));
  } else {
    gpu::MemoryHandle exported = 0;
    memcpy(&exported, shareable, sizeof(exported));
    const auto found = TheMemory().files.find(exported);
    if (found != TheMemory().files.end()) file = dup(found->second);
  }
  if (file < 0) return kInvalidValue;
  *handle = NewHandle(file);
  return 0;
}

// Null if the handle is no multicast object's.
Multicast* MulticastOf(gpu::MemoryHandle handle) {
  const auto found = TheMemory().files.find(handle);
  struct stat file{};
  if (found == TheMemory().files.end() || fstat(found->second, &file) != 0) return nullptr;
  const auto multicast = TheMemory().multicasts.find(file.st_ino);
  return multicast == TheMemory().multicasts.end() ? nullptr : &multicast->second;
}

int CreateMulticast(gpu::MemoryHandle* handle, const gpu::MulticastProperties* properties) {
  if (Refused().multicast) return kNotSupported;
  if (!IsGranular(properties->bytes) || properties->devices == 0 || properties->flags != 0) return kInvalidValue;
  const int file = memfd_create("multicast_double", MFD_CLOEXEC);
  struct stat made{};
  if (file < 0 || ftruncate(file, static_cast<off_t>(properties->bytes)) != 0 || fstat(file, &made) != 0) {
    return kOutOfMemory;
  }
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  TheMemory().multicasts[made.st_ino] = {properties->devices, {}, {}};
  *handle = NewHandle(file);
  return 0;
}

int MulticastGranularity(size_t* bytes, const gpu::MulticastProperties* /*properties*/, int option) {
  if (option != gpu::kMulticastGranularity) return kInvalidValue;
  *bytes = 2 * kDoubleGranularity;
  return 0;
}

int AddDevice(gpu::MemoryHandle handle, int device) {
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  Multicast* const multicast = MulticastOf(handle);
  if (multicast == nullptr || device == Refused().add) return kInvalidValue;
  return multicast->added.size() < multicast->devices && multicast->added.insert(device).second ? 0 : kInvalidValue;
}

int Bind(gpu::MemoryHandle handle, size_t offset, gpu::MemoryHandle memory, size_t from, size_t bytes, uint64_t flags) {
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  Multicast* const multicast = MulticastOf(handle);
  if (multicast == nullptr || offset != 0 || from != 0 || flags != 0 || bytes % (2 * kDoubleGranularity) != 0 ||
      TheMemory().files.count(memory) == 0 || multicast->added.size() != multicast->devices) {
    return kInvalidValue;
  }
  for (const int device : multicast->added) {
    if (multicast->bound.emplace(device, bytes).second) return 0;
  }
  return kInvalidValue;
}

int Unbind(gpu::MemoryHandle handle, int device, size_t offset, size_t bytes) {
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  Multicast* const multicast = MulticastOf(handle);
  if (multicast == nullptr || offset != 0 || multicast->bound[device] != bytes) return kInvalidValue;
  multicast->bound.erase(device);
  return 0;
}

}  // namespace

size_t BoundToMulticast() {
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  size_t bound = 0;
  for (const auto& [file, multicast] : TheMemory().multicasts) bound += multicast.bound.size();
  return bound;
}

RefusedMemory& Refused() {
  static RefusedMemory refused;
  return refused;
}

size_t LiveMemoryObjects() {
  const std::lock_guard<std::mutex> lock(TheMemory().mutex);
  return TheMemory().files.size() + TheMemory().mapped.size() + TheMemory().reserved.size();
}

void AddVirtualMemory(gpu::CudaDriver* driver) {
  driver->mem_get_granularity = Granularity;
  driver->mem_address_reserve = Reserve;
  driver->mem_address_free = FreeAddress;
  driver->mem_create = Create;
  driver->mem_release = Release;
  driver->mem_map = Map;
  driver->mem_unmap = Unmap;
  driver->mem_set_access = SetAccess;
  driver->mem_export = Export;
  driver->mem_import = Import;
  driver->multicast_create = CreateMulticast;
  driver->multicast_get_granularity = MulticastGranularity;
  driver->multicast_add_device = AddDevice;
  driver->multicast_bind_mem = Bind;
  driver->multicast_unbind = Unbind;
}

}  // namespace xla_shmem::testing
