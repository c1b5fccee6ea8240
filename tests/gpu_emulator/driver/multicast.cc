#include "driver/multicast.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "driver/contexts.h"
#include "driver/generic_handles.h"
#include "driver/handles.h"
#include "driver/log.h"
#include "driver/memory.h"
#include "driver/multicast_team.h"
#include "driver/objects.h"
#include "driver/settings.h"
#include "driver/shared_object.h"
#include "ptx/ptx.h"

namespace emulator {

struct MulticastObject {
  explicit MulticastObject(int fd);
  ~MulticastObject();
  MulticastObject(const MulticastObject&) = delete;
  MulticastObject& operator=(const MulticastObject&) = delete;

  const int file;
  Team* team = nullptr;
  // By the binding's number: memory that this process has bound, and where it sees what any has.
  struct Sight {
    uint64_t address = 0;
    size_t bytes = 0;
  };
  std::map<uint64_t, std::shared_ptr<Backing>> bound;
  std::map<uint64_t, Sight> seen;
};

MulticastObject::MulticastObject(int fd) : file(fd) {
  void* memory = mmap(nullptr, sizeof(Team), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) Die("no memory for a multicast object");
  team = static_cast<Team*>(memory);
}

MulticastObject::~MulticastObject() {
  {
    const Team::Hold hold(*team);
    for (Binding& binding : team->bindings) {
      if (bound.count(binding.number) != 0) binding.bytes = 0;
    }
  }
  for (const auto& [number, sight] : seen) UnmapView(sight.address, sight.bytes);
  munmap(team, sizeof(Team));
  close(file);
}

std::shared_ptr<MulticastObject> OpenMulticast(int fd) { return std::make_shared<MulticastObject>(fd); }
int FileOf(const MulticastObject& object) { return object.file; }
size_t BytesOf(const MulticastObject& object) { return object.team->bytes; }
unsigned HandleTypesOf(const MulticastObject& object) { return object.team->handle_types; }

bool IsInTeam(const MulticastObject& object, int gpu) {
  const Team::Hold hold(*object.team);
  const int* const end = object.team->gpus + object.team->added;
  return std::find(static_cast<const int*>(object.team->gpus), end, gpu) != end;
}

void WaitForTeam(const MulticastObject& object, const char* call) {
  const Team& team = *object.team;
  const int64_t seconds = Setting("MULTICAST_TIMEOUT", 60);
  if (WaitFor(seconds, [&] { return team.added.load() == team.devices; })) return;
  Die("%s waits for all devices of a multicast object: %u of %u were added (cuMulticastAddDevice)", call,
      team.added.load(), team.devices);
}

namespace {

// Memory of the double of NVSHMEM.
struct Multicast {
  size_t bytes = 0;
  std::vector<CUdeviceptr> members;
};

// By first address. Requires Global().
std::map<uint64_t, Multicast>& Multicasts() {
  static auto* multicasts = new std::map<uint64_t, Multicast>;
  return *multicasts;
}

// The last that begins at or before `address`, if it holds it.
const std::pair<const uint64_t, Multicast>* FindMulticast(uint64_t address) {
  const auto after = Multicasts().upper_bound(address);
  if (after == Multicasts().begin()) return nullptr;
  const auto& found = *std::prev(after);
  return address - found.first < found.second.bytes ? &found : nullptr;
}

// Where this process sees the memory of a binding.
uint64_t SeenAt(MulticastObject& object, const Binding& binding) {
  MulticastObject::Sight& sight = object.seen[binding.number];
  if (sight.address != 0) return sight.address;
  Backing backing;
  backing.fd = OpenFile(binding.file);
  sight.bytes = binding.from + binding.bytes;
  sight.address = NewAddresses(sight.bytes, kGranularity);
  if (backing.fd < 0 || !MapView(sight.address, backing, sight.bytes, PROT_READ | PROT_WRITE)) {
    Die("memory of GPU %d that was bound to a multicast object is gone", binding.gpu);
  }
  return sight.address;
}

// The memory of all devices behind [offset, offset + bytes) of an object. Requires Global().
bool MembersOf(MulticastObject& object, uint64_t offset, size_t bytes, std::vector<uint64_t>* members) {
  Team& team = *object.team;
  std::vector<Binding> covering;
  {
    const Team::Hold hold(team);
    for (uint32_t i = 0; i < team.bindings_made; ++i) {
      if (team.bindings[i].Covers(offset, bytes)) covering.push_back(team.bindings[i]);
    }
  }
  if (covering.size() != team.devices) return false;
  for (const Binding& binding : covering) {
    members->push_back(SeenAt(object, binding) + binding.from + (offset - binding.at));
  }
  return true;
}

// For the interpreter.
bool MembersAt(uint64_t address, size_t bytes, std::vector<uint64_t>* members) {
  const Lock lock(Global());
  members->clear();
  const auto range = Find(address);
  if (range != Ranges().end() && range->second.kind == Kind::kMulticast) {
    const uint64_t offset = address - range->first;
    const auto access = range->second.access.find(WorkingDevice());
    if (access == range->second.access.end() || (access->second & PROT_WRITE) == 0) return false;
    if (offset + bytes > range->second.bytes) return false;
    if (!MembersOf(*range->second.multicast, offset, bytes, members)) return false;
    // Sums begin with another device on each device.
    const auto first = static_cast<size_t>(WorkingDevice()) % members->size();
    std::rotate(members->begin(), members->begin() + static_cast<ptrdiff_t>(first), members->end());
    return true;
  }
  const auto* const found = FindMulticast(address);
  if (found == nullptr || bytes > found->second.bytes - (address - found->first)) return false;
  for (const CUdeviceptr member : found->second.members) members->push_back(member + (address - found->first));
  return true;
}

CUresult CheckObject(const CUmulticastObjectProp* properties, const char* call) {
  if (!HasMulticast()) {
    Complain("%s: the emulated GPU has no multicast (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)", call);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (properties == nullptr || properties->flags != 0 || properties->numDevices == 0) return CUDA_ERROR_INVALID_VALUE;
  if (properties->numDevices > Team::kMostDevices) return CUDA_ERROR_INVALID_VALUE;
  return CheckHandleTypes(static_cast<unsigned>(properties->handleTypes), call);
}

MulticastObject& ObjectOf(CUmemGenericAllocationHandle handle, const char* call) {
  const Shareable& found = HandleOf(handle, call);
  if (found.multicast == nullptr) Die("%s: 0x%llx is a handle of memory and not of a multicast object", call, handle);
  return *found.multicast;
}

// What a bind is refused for. Requires Global().
CUresult CheckBind(const MulticastObject& object, const Backing& memory, const Binding& wanted, const char* call) {
  if (wanted.bytes == 0 || wanted.at + wanted.bytes > object.team->bytes || wanted.from + wanted.bytes > memory.bytes) {
    Complain("%s: %lu bytes at offset %lu of a multicast object of %lu and at %lu of %zu bytes of memory", call,
             wanted.bytes, wanted.at, object.team->bytes, wanted.from, memory.bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!IsInTeam(object, memory.gpu)) {
    Complain("%s: memory of GPU %d, which was not added to the multicast object", call, memory.gpu);
    return CUDA_ERROR_INVALID_DEVICE;
  }
  if (object.team->handle_types == 0 || memory.properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_SUCCESS;
  }
  Complain("%s: a multicast object that is exported needs memory that is", call);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult Bind(CUmemGenericAllocationHandle handle, size_t at, std::shared_ptr<Backing> memory, size_t from,
              size_t bytes, unsigned long long flags, const char* call) {
  CheckGranular(call, "offset in the multicast object", at);
  CheckGranular(call, "offset in the memory", from);
  CheckGranular(call, "number of bytes", bytes);
  std::shared_ptr<MulticastObject> object;
  {
    const Lock lock(Global());
    ObjectOf(handle, call);
    object = HandleOf(handle, call).multicast;
  }
  WaitForTeam(*object, call);
  const Lock lock(Global());
  Team& team = *object->team;
  Binding wanted{{getpid(), memory->fd}, memory->gpu, at, from, bytes, 0};
  const CUresult result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : CheckBind(*object, *memory, wanted, call);
  if (result != CUDA_SUCCESS) return result;
  const Team::Hold hold(team);
  for (uint32_t i = 0; i < team.bindings_made; ++i) {
    const Binding& other = team.bindings[i];
    if (other.gpu != wanted.gpu || !other.Overlaps(at, bytes)) continue;
    Complain("%s: GPU %d has memory at offset %lu of the multicast object already", call, other.gpu, other.at);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (team.bindings_made == Team::kMostBindings) return CUDA_ERROR_OUT_OF_MEMORY;
  wanted.number = ++team.bindings_made;
  team.bindings[wanted.number - 1] = wanted;
  object->bound[wanted.number] = std::move(memory);
  ptx::SetMulticastMembers(MembersAt);
  return CUDA_SUCCESS;
}

}  // namespace

bool IsMulticast(uint64_t address) {
  const auto range = Find(address);
  if (range != Ranges().end() && range->second.kind == Kind::kMulticast) return true;
  return FindMulticast(address) != nullptr;
}

extern "C" {

CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags option) {
  const CUresult result = CheckObject(properties, __func__);
  if (result != CUDA_SUCCESS) return result;
  constexpr size_t kRecommended = size_t{512} << 20;
  *granularity = option == CU_MULTICAST_GRANULARITY_MINIMUM ? kGranularity : kRecommended;
  return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties) {
  const CUresult result = CheckObject(properties, __func__);
  if (result != CUDA_SUCCESS) return result;
  CheckGranular(__func__, "size", properties->size);
  if (handle == nullptr || properties->size == 0) return CUDA_ERROR_INVALID_VALUE;
  const int file = static_cast<int>(syscall(SYS_memfd_create, kMulticastFileName, MFD_CLOEXEC));
  if (file < 0 || ftruncate(file, sizeof(Team)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  auto object = std::make_shared<MulticastObject>(file);
  object->team->devices = properties->numDevices;
  object->team->bytes = properties->size;
  object->team->handle_types = static_cast<uint32_t>(properties->handleTypes);
  *handle = NewHandle({nullptr, std::move(object)});
  TRACE("%s for %u devices and %zu bytes: 0x%llx", __func__, properties->numDevices, properties->size, *handle);
  return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Lock lock(Global());
  const MulticastObject& object = ObjectOf(handle, __func__);
  if (IsInTeam(object, Physical(device))) {
    Complain("%s: device %d was added before", __func__, device);
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Team::Hold hold(*object.team);
  if (object.team->added == object.team->devices) {
    Complain("%s: device %d is one too many for a multicast object of %u", __func__, device, object.team->devices);
    return CUDA_ERROR_INVALID_VALUE;
  }
  object.team->gpus[object.team->added] = Physical(device);
  ++object.team->added;
  return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t at, CUmemGenericAllocationHandle memory,
                            size_t from, size_t bytes, unsigned long long flags) {
  std::shared_ptr<Backing> bound;
  {
    const Lock lock(Global());
    bound = HandleOf(memory, __func__).memory;
  }
  if (bound == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Bind(handle, at, std::move(bound), from, bytes, flags, __func__);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t at, CUdeviceptr address, size_t bytes,
                             unsigned long long flags) {
  std::shared_ptr<Backing> bound;
  uint64_t from = 0;
  {
    const Lock lock(Global());
    const auto range = Find(address);
    if (range == Ranges().end() || range->second.kind != Kind::kVirtual) {
      Complain("%s: no memory of cuMemCreate: %s", __func__, Describe(address).c_str());
      return CUDA_ERROR_INVALID_VALUE;
    }
    bound = range->second.backing;
    from = address - range->first;
  }
  return Bind(handle, at, std::move(bound), from, bytes, flags, __func__);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t at, size_t bytes) {
  CheckGranular(__func__, "offset in the multicast object", at);
  CheckGranular(__func__, "number of bytes", bytes);
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const Lock lock(Global());
  MulticastObject& object = ObjectOf(handle, __func__);
  const Team::Hold hold(*object.team);
  for (uint32_t i = 0; i < object.team->bindings_made; ++i) {
    Binding& binding = object.team->bindings[i];
    if (binding.gpu != Physical(device) || binding.at != at || binding.bytes != bytes) continue;
    binding.bytes = 0;
    object.bound.erase(binding.number);
    return CUDA_SUCCESS;
  }
  Die("%s: device %d has no memory of %zu bytes at offset %zu of the multicast object", __func__, device, bytes, at);
}

CUresult gpu_emulator_multicast(CUdeviceptr* address, const CUdeviceptr* members, size_t count, size_t bytes) {
  const Lock lock(Global());
  // Without memory of its own, so every other access is refused.
  *address = NewAddresses(bytes, kGranularity);
  Multicasts()[*address] = {bytes, {members, members + count}};
  ptx::SetMulticastMembers(MembersAt);
  TRACE("multicast memory of %zu GPUs and %zu bytes: 0x%llx", count, bytes, *address);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emulator
