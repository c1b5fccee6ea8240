// libnvidia-ml.so.1: the emulated machine as NVML describes it. Its GPUs have NVLinks to switches, reach each other's
// memory, and belong to no cluster unless there is a FABRIC; with several LINK_DOMAINS they have NVLinks to the GPUs of
// their domain instead. Layouts and numbers as in nvml.h.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "driver/log.h"
#include "driver/settings.h"

namespace {

enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
};
constexpr const char* kDeviceName = "Emulated GPU (no hardware)";
constexpr const char* kDriverVersion = "580.65.06";
constexpr int kCudaVersion = 13000;
constexpr unsigned kLinks = 18, kFirstBus = 0x10;
enum LinkEnd : unsigned { kLinkToGpu = 0, kLinkToSwitch = 2 };                // nvmlIntNvLinkDeviceType_t
constexpr uint8_t kFabricCompleted = 3;                                       // NVML_GPU_FABRIC_STATE_COMPLETED
enum PeerToPeer : unsigned { kPeerToPeerWorks = 0, kTopologyForbidsIt = 3 };  // nvmlGpuP2PStatus_t

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct FabricInfo {  // nvmlGpuFabricInfo_v2_t
  unsigned version;
  uint8_t cluster[16];
  int status;
  uint32_t clique;
  uint8_t state;
  uint32_t health;
};
constexpr unsigned kFabricInfoVersion2 = sizeof(FabricInfo) | (2u << 24);
static_assert(sizeof(FabricInfo) == 36);
struct FieldValue {  // nvmlFieldValue_t
  unsigned field, scope;
  long long timestamp, latency;
  int type, result;
  union {
    double floating;
    unsigned number;
    unsigned long long wide;
  } value;
};
static_assert(sizeof(FieldValue) == 40);
constexpr int kTypeUnsigned = 1;        // nvmlValueType_t
constexpr unsigned kFieldNvLinks = 91;  // NVML_FI_DEV_NVLINK_LINK_COUNT
struct ConfidentialComputing {          // nvmlConfComputeSystemState_t
  unsigned environment, feature, tools_mode;
};
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};

std::atomic<int> initialized{0};

// Handles are addresses of this array's elements.
char devices[64];

unsigned Count() { return static_cast<unsigned>(std::min<int>(emulator::DeviceCount(), sizeof(devices))); }

bool IsDevice(const void* device) {
  const auto* at = static_cast<const char*>(device);
  return at >= devices && at < devices + Count();
}
unsigned IndexOf(const void* device) { return static_cast<unsigned>(static_cast<const char*>(device) - devices); }

int CopyText(const char* from, char* to, unsigned length) {
  if (to == nullptr) return kInvalidArgument;
  if (strlen(from) + 1 > length) return kInsufficientSize;
  snprintf(to, length, "%s", from);
  return kSuccess;
}

bool HasSwitches() { return emulator::LinkDomains() == 1; }

// The GPU at the other end of a link where there are no switches; `gpu` itself if its domain has no other.
unsigned LinkedGpu(unsigned gpu, unsigned link) {
  unsigned others[sizeof(devices)], count = 0;
  for (unsigned i = 0; i < Count(); ++i) {
    if (i != gpu && emulator::AreLinked(static_cast<int>(i), static_cast<int>(gpu))) others[count++] = i;
  }
  return count == 0 ? gpu : others[link % count];
}

bool LinkIsActive(unsigned gpu, unsigned link) { return HasSwitches() || LinkedGpu(gpu, link) != gpu; }

void FillPciInfo(PciInfo* info, unsigned gpu) {
  *info = {};
  info->bus = kFirstBus + gpu;
  info->pci_device_id = 0x10de;  // NVIDIA's vendor number and no product's
  snprintf(info->bus_id_legacy, sizeof(info->bus_id_legacy), "0000:%02X:00.0", info->bus);
  snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%02X:00.0", info->bus);
}

// What every call on a device checks first.
#define RETURN_UNLESS_DEVICE(device)                \
  do {                                              \
    if (initialized <= 0) return kUninitialized;    \
    if (!IsDevice(device)) return kInvalidArgument; \
  } while (false)

}  // namespace

extern "C" {

int nvmlInitWithFlags(unsigned) {
  ++initialized;
  return kSuccess;
}
int nvmlInit_v2() { return nvmlInitWithFlags(0); }
int nvmlInit() { return nvmlInitWithFlags(0); }
int nvmlShutdown() {
  if (initialized <= 0) return kUninitialized;
  --initialized;
  return kSuccess;
}
const char* nvmlErrorString(int status) {
  switch (status) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return initialized <= 0 ? kUninitialized : CopyText(kDriverVersion, text, length);
}
int nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return initialized <= 0 ? kUninitialized : CopyText("13.580.65.06", text, length);
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = kCudaVersion;
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

int nvmlDeviceGetCount_v2(unsigned* count) {
  if (initialized <= 0) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = Count();
  return kSuccess;
}
int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (initialized <= 0) return kUninitialized;
  if (device == nullptr || index >= Count()) return kInvalidArgument;
  *device = devices + index;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex(unsigned index, void** device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (initialized <= 0) return kUninitialized;
  unsigned domain = 0, bus = 0;
  if (bus_id == nullptr || device == nullptr || sscanf(bus_id, "%x:%x", &domain, &bus) != 2) return kInvalidArgument;
  if (domain != 0 || bus < kFirstBus || bus >= kFirstBus + Count()) return kNotFound;
  *device = devices + (bus - kFirstBus);
  return kSuccess;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  RETURN_UNLESS_DEVICE(device);
  char uuid[64];
  snprintf(uuid, sizeof(uuid), "GPU-656d756c-6174-6564-2047-5055000000%02x", IndexOf(device));
  return CopyText(uuid, text, length);
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (initialized <= 0) return kUninitialized;
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  for (unsigned i = 0; i < Count(); ++i) {
    char ours[64];
    nvmlDeviceGetUUID(devices + i, ours, sizeof(ours));
    if (strcmp(ours, uuid) != 0) continue;
    *device = devices + i;
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetName(void* device, char* text, unsigned length) {
  RETURN_UNLESS_DEVICE(device);
  return CopyText(kDeviceName, text, length);
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  RETURN_UNLESS_DEVICE(device);
  *index = IndexOf(device);
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  RETURN_UNLESS_DEVICE(device);
  FillPciInfo(info, IndexOf(device));
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  RETURN_UNLESS_DEVICE(device);
  *major = emulator::ComputeCapability() / 10;
  *minor = emulator::ComputeCapability() % 10;
  return kSuccess;
}
// NVML of the real driver sees the memory that all processes use; this one does not see even its own process's.
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  RETURN_UNLESS_DEVICE(device);
  *memory = {emulator::TotalMemory(), emulator::TotalMemory(), 0};
  return kSuccess;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  RETURN_UNLESS_DEVICE(device);
  *current = *pending = emulator::HasMig() ? 1 : 0;
  return kSuccess;
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  RETURN_UNLESS_DEVICE(device);
  if (link >= kLinks) return kInvalidArgument;
  *active = LinkIsActive(IndexOf(device), link) ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, unsigned* type) {
  RETURN_UNLESS_DEVICE(device);
  if (link >= kLinks) return kInvalidArgument;
  if (!LinkIsActive(IndexOf(device), link)) return kNotSupported;
  *type = HasSwitches() ? kLinkToSwitch : kLinkToGpu;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  RETURN_UNLESS_DEVICE(device);
  if (link >= kLinks) return kInvalidArgument;
  if (HasSwitches() || !LinkIsActive(IndexOf(device), link)) return kNotSupported;
  FillPciInfo(info, LinkedGpu(IndexOf(device), link));
  return kSuccess;
}
int nvmlDeviceGetNvLinkCapability(void* device, unsigned link, int, unsigned* value) {
  RETURN_UNLESS_DEVICE(device);
  if (link >= kLinks) return kInvalidArgument;
  *value = 1;
  return kSuccess;
}
int nvmlDeviceGetP2PStatus(void* device, void* peer, int, unsigned* status) {
  RETURN_UNLESS_DEVICE(device);
  RETURN_UNLESS_DEVICE(peer);
  const bool linked = emulator::AreLinked(static_cast<int>(IndexOf(device)), static_cast<int>(IndexOf(peer)));
  *status = linked ? kPeerToPeerWorks : kTopologyForbidsIt;
  return kSuccess;
}
int nvmlDeviceGetGpuFabricInfoV(void* device, FabricInfo* info) {
  RETURN_UNLESS_DEVICE(device);
  if (info->version != kFabricInfoVersion2) return kNotSupported;
  const unsigned version = info->version;
  memset(info, 0, sizeof(*info));  // state 0: the machine has no fabric manager that tells
  info->version = version;
  if (!emulator::HasFabric()) return kSuccess;
  info->state = kFabricCompleted;
  memset(info->cluster, 0xfa, sizeof(info->cluster));
  return kSuccess;
}
// Each value has a result of its own; the call fails only if it has none to give.
int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  RETURN_UNLESS_DEVICE(device);
  if (count < 1 || values == nullptr) return kInvalidArgument;
  int known = 0;
  for (FieldValue* field = values; field != values + count; ++field) {
    field->timestamp = field->latency = 0;
    field->type = kTypeUnsigned;
    field->value.wide = 0;
    if (field->field != kFieldNvLinks) {
      emulator::Complain("refused: NVML field %u of scope %u", field->field, field->scope);
      field->result = kNotSupported;
      continue;
    }
    field->value.number = kLinks;
    field->result = kSuccess;
    ++known;
  }
  return known > 0 ? kSuccess : kNotSupported;
}
// The machine has no confidential computing.
int nvmlSystemGetConfComputeState(ConfidentialComputing* state) {
  if (initialized <= 0) return kUninitialized;
  if (state == nullptr) return kInvalidArgument;
  *state = {};
  return kSuccess;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* generation) {
  RETURN_UNLESS_DEVICE(device);
  *generation = 5;
  return kSuccess;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* width) {
  RETURN_UNLESS_DEVICE(device);
  *width = 16;
  return kSuccess;
}

}  // extern "C"
