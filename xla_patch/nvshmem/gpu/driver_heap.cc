#include "xla_patch/nvshmem/gpu/driver_heap.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

namespace xla_shmem::gpu {
namespace {

constexpr size_t kAlignment = 256;  // of objects, as of cuMemAlloc

// The open heaps of this process. The lock is never held while the driver is called.
struct OpenHeaps {
  std::shared_mutex mutex;
  std::vector<const DriverHeap*> heaps;
};

OpenHeaps& TheHeaps() {
  static auto* const heaps = new OpenHeaps;
  return *heaps;
}

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

int HandleType(MemorySharing sharing) {
  switch (sharing) {
    case MemorySharing::kNone:
      return kHandleNone;
    case MemorySharing::kFiles:
      return kHandleFile;
    case MemorySharing::kFabric:
      return kHandleFabric;
  }
  return kHandleNone;
}

}  // namespace

Result<std::unique_ptr<DriverHeap>> DriverHeap::Create(const CudaDriver* cuda, const Options& options) {
  std::unique_ptr<DriverHeap> heap(new DriverHeap(cuda, options));
  XLA_SHMEM_RETURN_IF_ERROR(heap->Make());
  return heap;
}

Status DriverHeap::Check(int result, const std::string& what) const {
  if (result == kCudaSuccess) return {};
  const char* name = nullptr;
  cuda_->get_error_name(result, &name);
  return Status::Error(what + " failed with " + (name != nullptr ? name : "error " + std::to_string(result)));
}

Status DriverHeap::Make() {
  AllocationProperties properties;
  properties.handle_types = HandleType(options_.sharing);
  size_t granularity = 1;
  for (const LocalPe& own : options_.own) {
    size_t bytes = 0;
    properties.device = own.device;
    XLA_SHMEM_RETURN_IF_ERROR(Check(cuda_->mem_get_granularity(&bytes, &properties, kGranularityRecommended),
                                    "cuMemGetAllocationGranularity of device " + std::to_string(own.device)));
    granularity = std::max(granularity, bytes);  // powers of two
  }
  part_bytes_ = RoundUp(options_.bytes, granularity);
  taken_.assign(options_.n_pes, 0);
  DeviceAddress base = 0;
  const size_t reserved = part_bytes_ * options_.n_pes;
  XLA_SHMEM_RETURN_IF_ERROR(Check(cuda_->mem_address_reserve(&base, reserved, 0, 0, 0),
                                  "cuMemAddressReserve of " + std::to_string(reserved) + " bytes"));
  base_ = reinterpret_cast<char*>(base);
  for (const LocalPe& own : options_.own) {
    properties.device = own.device;
    MemoryHandle memory = 0;
    const Status made = Check(cuda_->mem_create(&memory, part_bytes_, &properties, 0),
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

Status DriverHeap::Map(int pe, MemoryHandle memory) {
  memory_.emplace_back(pe, memory);
  XLA_SHMEM_RETURN_IF_ERROR(Check(cuda_->mem_map(AddressOf(part(pe)), part_bytes_, 0, memory, 0),
                                  "cuMemMap of the memory of PE " + std::to_string(pe)));
  mapped_.push_back(pe);
  return {};
}

const LocalPe* DriverHeap::FindOwn(int pe) const {
  const auto found =
      std::find_if(options_.own.begin(), options_.own.end(), [pe](const LocalPe& own) { return own.pe == pe; });
  return found == options_.own.end() ? nullptr : &*found;
}

Result<int> DriverHeap::ExportFile(int pe) const {
  for (const auto& [owner, memory] : memory_) {
    if (owner != pe) continue;
    int file = -1;
    XLA_SHMEM_RETURN_IF_ERROR(Check(cuda_->mem_export(&file, memory, kHandleFile, 0),
                                    "cuMemExportToShareableHandle of PE " + std::to_string(pe)));
    return file;
  }
  return Status::Error("PE " + std::to_string(pe) + " has no memory in this process");
}

Result<std::string> DriverHeap::ExportFabric(int pe) const {
  for (const auto& [owner, memory] : memory_) {
    if (owner != pe) continue;
    std::string handle(kFabricHandleBytes, '\0');
    XLA_SHMEM_RETURN_IF_ERROR(Check(cuda_->mem_export(handle.data(), memory, kHandleFabric, 0),
                                    "cuMemExportToShareableHandle (fabric) of PE " + std::to_string(pe)));
    return handle;
  }
  return Status::Error("PE " + std::to_string(pe) + " has no memory in this process");
}

Status DriverHeap::ImportFile(int pe, int file) {
  MemoryHandle memory = 0;
  XLA_SHMEM_RETURN_IF_ERROR(
      Check(cuda_->mem_import(&memory, reinterpret_cast<void*>(static_cast<uintptr_t>(file)), kHandleFile),
            "cuMemImportFromShareableHandle of PE " + std::to_string(pe)));
  return Map(pe, memory);
}

Status DriverHeap::ImportFabric(int pe, const std::string& handle) {
  if (handle.size() != kFabricHandleBytes) {
    return Status::Error("the fabric handle of PE " + std::to_string(pe) + " has " + std::to_string(handle.size()) +
                         " bytes, not " + std::to_string(kFabricHandleBytes));
  }
  std::string copy = handle;
  MemoryHandle memory = 0;
  XLA_SHMEM_RETURN_IF_ERROR(Check(cuda_->mem_import(&memory, copy.data(), kHandleFabric),
                                  "cuMemImportFromShareableHandle (fabric) of PE " + std::to_string(pe)));
  return Map(pe, memory);
}

Status DriverHeap::Open() {
  if (mapped_.size() != static_cast<size_t>(options_.n_pes)) {
    return Status::Error("the heap has the memory of " + std::to_string(mapped_.size()) + " of " +
                         std::to_string(options_.n_pes) + " PEs");
  }
  std::vector<MemoryAccess> access(options_.own.size());
  for (size_t i = 0; i < access.size(); ++i) access[i].device = options_.own[i].device;
  for (int pe = 0; pe < options_.n_pes; ++pe) {
    const LocalPe* const own = FindOwn(pe);
    XLA_SHMEM_RETURN_IF_ERROR(
        Check(cuda_->mem_set_access(AddressOf(part(pe)), part_bytes_, access.data(), access.size()),
              "cuMemSetAccess to the memory of PE " + std::to_string(pe) +
                  (own != nullptr ? ", device " + std::to_string(own->device) + "," : "") +
                  " for the GPUs of this "
                  "process"));
  }
  OpenHeaps& open = TheHeaps();
  const std::lock_guard<std::shared_mutex> lock(open.mutex);
  open.heaps.push_back(this);
  open_ = true;
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
  return byte >= base_ && byte < base_ + part_bytes_ * options_.n_pes;
}

const NvshmemApi& DriverHeap::Table() {
  static const NvshmemApi table = [] {
    NvshmemApi api{};
    api.ptr = [](const void* object, int pe) -> void* {
      OpenHeaps& open = TheHeaps();
      const std::shared_lock<std::shared_mutex> lock(open.mutex);
      for (const DriverHeap* heap : open.heaps) {
        if (!heap->Contains(object)) continue;
        if (pe < 0 || pe >= heap->options_.n_pes) return nullptr;
        const size_t offset = (static_cast<const char*>(object) - heap->base_) % heap->part_bytes_;
        return heap->part(pe) + offset;
      }
      return nullptr;
    };
    return api;
  }();
  return table;
}

DriverHeap::~DriverHeap() {
  if (open_) {
    OpenHeaps& open = TheHeaps();
    const std::lock_guard<std::shared_mutex> lock(open.mutex);
    open.heaps.erase(std::remove(open.heaps.begin(), open.heaps.end(), this), open.heaps.end());
  }
  for (const int pe : mapped_) cuda_->mem_unmap(AddressOf(part(pe)), part_bytes_);
  for (const auto& [pe, memory] : memory_) cuda_->mem_release(memory);
  if (base_ != nullptr) cuda_->mem_address_free(AddressOf(base_), part_bytes_ * options_.n_pes);
}

}  // namespace xla_shmem::gpu
