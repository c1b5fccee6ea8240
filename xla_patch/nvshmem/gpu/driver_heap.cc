#include "xla_patch/nvshmem/gpu/driver_heap.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace xla_shmem::gpu {
namespace {

constexpr size_t kAlignment = 256;  // of objects, as of cuMemAlloc

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

int HandleType(MemorySharing sharing) {
  return sharing == MemorySharing::kFabric  ? kHandleFabric
         : sharing == MemorySharing::kFiles ? kHandleFile
                                            : kHandleNone;
}

int FileIn(const std::string& handle) {
  int file = -1;
  memcpy(&file, handle.data(), sizeof(file));
  return file;
}

std::string NameOf(int pe) { return pe == kMulticastObject ? "the multicast object" : "PE " + std::to_string(pe); }

}  // namespace

Result<std::unique_ptr<DriverHeap>> DriverHeap::Create(const CudaDriver* cuda, const Options& options) {
  std::unique_ptr<DriverHeap> heap(new DriverHeap(cuda, options));
  XLA_SHMEM_RETURN_IF_ERROR(heap->Make());
  return heap;
}

Status DriverHeap::Make() {
  AllocationProperties properties;
  properties.handle_types = HandleType(options_.sharing);
  size_t granularity = 1;
  for (const LocalPe& own : options_.own) {
    size_t bytes = 0;
    properties.device = own.device;
    XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_,
                                         cuda_->mem_get_granularity(&bytes, &properties, kGranularityRecommended),
                                         "cuMemGetAllocationGranularity of device " + std::to_string(own.device)));
    granularity = std::max(granularity, bytes);  // powers of two
  }
  if (options_.multicast && cuda_->multicast_get_granularity != nullptr) {
    const MulticastProperties multicast = ForMulticast();
    size_t bytes = 0;
    // Without multicast memory the heap is as good.
    if (cuda_->multicast_get_granularity(&bytes, &multicast, kMulticastGranularity) == kCudaSuccess) {
      granularity = std::max(granularity, bytes);
    }
  }
  part_bytes_ = RoundUp(options_.bytes, granularity);
  taken_.assign(options_.n_pes, 0);
  DeviceAddress base = 0;
  const size_t reserved = part_bytes_ * options_.n_pes;
  XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_, cuda_->mem_address_reserve(&base, reserved, 0, 0, 0),
                                       "cuMemAddressReserve of " + std::to_string(reserved) + " bytes"));
  base_ = reinterpret_cast<char*>(base);
  undo_.emplace_back([this, base, reserved] { cuda_->mem_address_free(base, reserved); });
  for (const LocalPe& own : options_.own) {
    properties.device = own.device;
    MemoryHandle memory = 0;
    const Status made = CudaStatus(*cuda_, cuda_->mem_create(&memory, part_bytes_, &properties, 0),
                                   "cuMemCreate of " + std::to_string(part_bytes_) +
                                       " bytes of symmetric memory on device " + std::to_string(own.device));
    if (!made.ok()) {
      return Status::Error(made.message() +
                           ": lower XLA_SHMEM_HEAP_SIZE if the GPU's memory is full; a container needs permission to "
                           "share memory");
    }
    XLA_SHMEM_RETURN_IF_ERROR(Map(own.pe, memory));
  }
  return {};
}

// A multicast object is only kept: it is mapped once all have added their GPUs.
Status DriverHeap::Map(int pe, MemoryHandle memory) {
  memory_[pe] = memory;
  undo_.emplace_back([this, memory] { cuda_->mem_release(memory); });
  if (pe == kMulticastObject) return {};
  XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_, cuda_->mem_map(AddressOf(part(pe)), part_bytes_, 0, memory, 0),
                                       "cuMemMap of the memory of PE " + std::to_string(pe)));
  undo_.emplace_back([this, pe] { cuda_->mem_unmap(AddressOf(part(pe)), part_bytes_); });
  return {};
}

const LocalPe* DriverHeap::FindOwn(int pe) const {
  const auto found =
      std::find_if(options_.own.begin(), options_.own.end(), [pe](const LocalPe& own) { return own.pe == pe; });
  return found == options_.own.end() ? nullptr : &*found;
}

Result<MemoryHandle> DriverHeap::HandleOf(int pe) const {
  const auto found = memory_.find(pe);
  if (found != memory_.end()) return found->second;
  return Status::Error(NameOf(pe) + " has no memory in this process");
}

Result<std::string> DriverHeap::Export(int pe) const {
  const Result<MemoryHandle> memory = HandleOf(pe);
  if (!memory.ok()) return memory.status();
  const bool fabric = options_.sharing == MemorySharing::kFabric;
  std::string handle(fabric ? kFabricHandleBytes : sizeof(int), '\0');
  XLA_SHMEM_RETURN_IF_ERROR(
      CudaStatus(*cuda_, cuda_->mem_export(handle.data(), *memory, HandleType(options_.sharing), 0),
                 std::string("cuMemExportToShareableHandle") + (fabric ? " (fabric)" : "") + " of " + NameOf(pe)));
  return handle;
}

Result<SharedMemory> DriverHeap::ExportAll() const {
  std::vector<int> objects;
  objects.reserve(options_.own.size() + 1);
  for (const LocalPe& own : options_.own) objects.push_back(own.pe);
  if (memory_.count(kMulticastObject) != 0) objects.push_back(kMulticastObject);
  if (options_.sharing == MemorySharing::kNone) objects.clear();
  SharedMemory shared;
  for (const int object : objects) {
    Result<std::string> handle = Export(object);
    if (!handle.ok()) {
      for (const auto& [exported, file] : shared) {
        if (options_.sharing == MemorySharing::kFiles) close(FileIn(file));
      }
      return handle.status();
    }
    shared.emplace_back(object, *std::move(handle));
  }
  return shared;
}

Status DriverHeap::Import(int pe, const std::string& handle) {
  const bool fabric = options_.sharing == MemorySharing::kFabric;
  const size_t expected = fabric ? kFabricHandleBytes : sizeof(int);
  if (handle.size() != expected) {
    return Status::Error(std::string("the ") + (fabric ? "fabric handle" : "file") + " of " + NameOf(pe) + " has " +
                         std::to_string(handle.size()) + " bytes, not " + std::to_string(expected));
  }
  std::string copy = handle;
  void* const shareable = fabric ? copy.data() : reinterpret_cast<void*>(static_cast<uintptr_t>(FileIn(handle)));
  MemoryHandle memory = 0;
  XLA_SHMEM_RETURN_IF_ERROR(
      CudaStatus(*cuda_, cuda_->mem_import(&memory, shareable, HandleType(options_.sharing)),
                 std::string("cuMemImportFromShareableHandle") + (fabric ? " (fabric)" : "") + " of " + NameOf(pe)));
  return Map(pe, memory);
}

std::vector<MemoryAccess> DriverHeap::OwnAccess() const {
  std::vector<MemoryAccess> access(options_.own.size());
  for (size_t i = 0; i < access.size(); ++i) access[i].device = options_.own[i].device;
  return access;
}

Status DriverHeap::Open() {
  if (const size_t mapped = memory_.size() - memory_.count(kMulticastObject);
      mapped != static_cast<size_t>(options_.n_pes)) {
    return Status::Error("the heap has the memory of " + std::to_string(mapped) + " of " +
                         std::to_string(options_.n_pes) + " PEs");
  }
  const std::vector<MemoryAccess> access = OwnAccess();
  for (int pe = 0; pe < options_.n_pes; ++pe) {
    const LocalPe* const own = FindOwn(pe);
    XLA_SHMEM_RETURN_IF_ERROR(
        CudaStatus(*cuda_, cuda_->mem_set_access(AddressOf(part(pe)), part_bytes_, access.data(), access.size()),
                   "cuMemSetAccess to the memory of PE " + std::to_string(pe) +
                       (own != nullptr ? ", device " + std::to_string(own->device) + "," : "") +
                       " for the GPUs of this "
                       "process"));
  }
  open_ = true;
  return {};
}

MulticastProperties DriverHeap::ForMulticast() const {
  return {static_cast<unsigned>(options_.n_pes), part_bytes_, static_cast<uint64_t>(HandleType(options_.sharing)), 0};
}

Status DriverHeap::MakeMulticast() {
  if (cuda_->multicast_create == nullptr) {
    return Status::Error("the driver is older than CUDA 12.1, which has the first multicast objects");
  }
  const MulticastProperties properties = ForMulticast();
  MemoryHandle object = 0;
  XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_, cuda_->multicast_create(&object, &properties),
                                       "cuMulticastCreate for " + std::to_string(options_.n_pes) + " GPUs"));
  return Map(kMulticastObject, object);
}

Status DriverHeap::AddToMulticast() {
  const Result<MemoryHandle> object = HandleOf(kMulticastObject);
  if (!object.ok()) return object.status();
  for (const LocalPe& own : options_.own) {
    XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_, cuda_->multicast_add_device(*object, own.device),
                                         "cuMulticastAddDevice of device " + std::to_string(own.device)));
  }
  return {};
}

Status DriverHeap::OpenMulticast() {
  const Result<MemoryHandle> object = HandleOf(kMulticastObject);
  if (!object.ok()) return object.status();
  for (const LocalPe& own : options_.own) {
    const Result<MemoryHandle> memory = HandleOf(own.pe);
    if (!memory.ok()) return memory.status();
    XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_, cuda_->multicast_bind_mem(*object, 0, *memory, 0, part_bytes_, 0),
                                         "cuMulticastBindMem of the memory of PE " + std::to_string(own.pe)));
    undo_.emplace_back(
        [this, object = *object, device = own.device] { cuda_->multicast_unbind(object, device, 0, part_bytes_); });
  }
  DeviceAddress base = 0;
  XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_, cuda_->mem_address_reserve(&base, part_bytes_, 0, 0, 0),
                                       "cuMemAddressReserve of " + std::to_string(part_bytes_) + " bytes"));
  undo_.emplace_back([this, base] { cuda_->mem_address_free(base, part_bytes_); });
  XLA_SHMEM_RETURN_IF_ERROR(
      CudaStatus(*cuda_, cuda_->mem_map(base, part_bytes_, 0, *object, 0), "cuMemMap of the multicast object"));
  undo_.emplace_back([this, base] { cuda_->mem_unmap(base, part_bytes_); });
  const std::vector<MemoryAccess> access = OwnAccess();
  XLA_SHMEM_RETURN_IF_ERROR(CudaStatus(*cuda_, cuda_->mem_set_access(base, part_bytes_, access.data(), access.size()),
                                       "cuMemSetAccess to the multicast object"));
  multicast_ = reinterpret_cast<char*>(base);
  return {};
}

void* DriverHeap::Allocate(int pe, size_t bytes) {
  const size_t size = RoundUp(bytes, kAlignment);
  if (FindOwn(pe) == nullptr || size > part_bytes_ - taken_[pe]) return nullptr;
  char* const object = part(pe) + taken_[pe];
  taken_[pe] += size;
  return object;
}

bool DriverHeap::Contains(const void* address) const {
  const auto* const byte = static_cast<const char*>(address);
  return open_ && byte >= base_ && byte < base_ + part_bytes_ * options_.n_pes;
}

void* DriverHeap::PeerAddress(const void* object, int pe) const {
  if (!Contains(object) || pe < 0 || pe >= options_.n_pes) return nullptr;
  return part(pe) + (static_cast<const char*>(object) - base_) % part_bytes_;
}

void* DriverHeap::MulticastAddress(const void* object) const {
  if (!Contains(object) || multicast_ == nullptr) return nullptr;
  return multicast_ + (static_cast<const char*>(object) - base_) % part_bytes_;
}

DriverHeap::~DriverHeap() {
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
}

}  // namespace xla_shmem::gpu
