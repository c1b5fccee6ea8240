// The calls of libnvidia-ml.so.1 and libcuda.so.1 that xla_shmem.gpu makes, on a machine described by DRIVER_DOUBLE:
//   hgx       GPUs on NVSwitches, fabric "completed" without a cluster     nvl72  the same with a cluster, clique 7
//   bridge    pairs of GPUs with NVLinks to each other                     pcie   GPUs with peer access only
//   lone      GPUs without peer access                                     mig    GPUs split by MIG
//   old       like pcie; the driver has no calls for fabric and MIG        broken nvmlInit and cuInit fail
//   emulated  like pcie; the GPUs have the name of those of tests/gpu_emulator
// It has two GPUs. CUDA shows them in reverse order; CUDA_DOUBLE_VISIBLE limits their number. Layouts and numbers as in
// nvml.h and cuda.h.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "tests/nvshmem/gpu/cuda_errors.h"

namespace {

namespace testing = xla_shmem::testing;

constexpr int kSuccess = 0, kNotSupported = 3, kFunctionNotFound = 13, kLibRmVersionMismatch = 18;
constexpr const char* kBusIds[] = {"00000000:1B:00.0", "00000000:5D:00.0"};
constexpr int kGpus = static_cast<int>(std::size(kBusIds));

bool Is(const char* name) {
  const char* machine = std::getenv("DRIVER_DOUBLE");
  return machine != nullptr && std::strcmp(machine, name) == 0;
}

bool OnSwitch() { return Is("hgx") || Is("nvl72"); }

struct Pci {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

int FillPci(Pci* pci, int gpu) {
  *pci = {};
  std::snprintf(pci->bus_id, sizeof(pci->bus_id), "%s", kBusIds[gpu]);
  return kSuccess;
}

int IndexOf(void* device) { return static_cast<int>(reinterpret_cast<std::intptr_t>(device)) - 1; }

}  // namespace

extern "C" {

int nvmlInitWithFlags(unsigned) { return Is("broken") ? kLibRmVersionMismatch : kSuccess; }
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int) { return "Driver/library version mismatch"; }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.65.06");
  return kSuccess;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = Is("old") ? 12020 : 13010;
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kGpus;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<std::intptr_t>(index) + 1);
  return kSuccess;
}
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) { return FillPci(pci, IndexOf(device)); }
int nvmlDeviceGetName(void*, char* text, unsigned size) {
  std::snprintf(text, size, Is("emulated") ? "Emulated GPU (no hardware)" : "NVIDIA Double");
  return kSuccess;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%d", IndexOf(device));
  return kSuccess;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, std::uint64_t* memory) {
  memory[0] = std::uint64_t{80} << 30;
  memory[1] = memory[2] = 0;
  return kSuccess;
}
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  if (Is("old")) return kNotSupported;
  *current = *pending = Is("mig") ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* active) {
  if (!OnSwitch() && !Is("bridge")) return kNotSupported;
  *active = link < (OnSwitch() ? 18u : 12u) ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned* type) {
  *type = OnSwitch() ? 2 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, Pci* pci) { return FillPci(pci, IndexOf(device) ^ 1); }
int nvmlDeviceGetP2PStatus(void*, void*, unsigned capability, unsigned* status) {
  const bool nvlink = OnSwitch() || Is("bridge");
  const bool any = nvlink || Is("pcie") || Is("old");
  *status = (capability == 2 ? nvlink : any) ? 0 : 5;
  return kSuccess;
}
struct FabricInfo {
  unsigned version;
  std::uint8_t cluster[16];
  int status;
  std::uint32_t clique;
  unsigned state;
  std::uint32_t health;
};
int nvmlDeviceGetGpuFabricInfoV(void*, FabricInfo* info) {
  constexpr unsigned kVersion2 = sizeof(FabricInfo) | (2u << 24);
  if (Is("old")) return kFunctionNotFound;
  if (info->version != kVersion2) return kNotSupported;
  std::memset(info->cluster, Is("nvl72") ? 0xab : 0, sizeof(info->cluster));
  info->status = kSuccess;
  info->clique = Is("nvl72") ? 7 : 0;
  info->state = OnSwitch() ? 3 : 0;
  return kSuccess;
}

int cuInit(unsigned) { return Is("broken") ? testing::kDriverMismatch : kSuccess; }
int cuGetErrorName(int error, const char** name) {
  *name = testing::CudaErrorName(error);
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  const char* visible = std::getenv("CUDA_DOUBLE_VISIBLE");
  *count = visible != nullptr ? static_cast<int>(std::strtol(visible, nullptr, 10)) : kGpus;
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  int count = 0;
  cuDeviceGetCount(&count);
  if (ordinal < 0 || ordinal >= count) return testing::kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  if (device < 0 || device >= kGpus) return testing::kInvalidDevice;
  const char* bus_id = kBusIds[kGpus - 1 - device];
  std::snprintf(text, static_cast<std::size_t>(size), "%s", bus_id + 4);  // CUDA writes 4 digits of domain
  return kSuccess;
}

}  // extern "C"
