// libnvidia-ml.so.1 of the emulator.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
extern "C" int gpu_emulator_refused(const char* name) {
  if (const char* path = getenv("GPU_EMULATOR_LOG")) {
    FILE* f = strcmp(path, "-") == 0 ? stderr : fopen(path, "a");
    if (f != nullptr) {
      fprintf(f, "[%d] refused: %s has no behaviour\n", getpid(), name);
      if (f != stderr) fclose(f);
    }
  }
  return 3;  // NVML_ERROR_NOT_SUPPORTED
}
static int Count() {
  const char* t = getenv("GPU_EMULATOR_DEVICES");
  return t == nullptr ? 1 : atoi(t);
}
extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlInit() { return 0; }
int nvmlInitWithFlags(unsigned) { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "emulated NVML"; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  snprintf(text, length, "580.65.06");
  return 0;
}
int nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  snprintf(text, length, "13.580.65.06");
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}
int nvmlSystemGetCudaDriverVersion(int* version) {
  *version = 13000;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = Count();
  return 0;
}
int nvmlDeviceGetCount(unsigned* count) {
  *count = Count();
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(0x1000L + index);
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  unsigned domain = 0, bus = 0;
  if (sscanf(id, "%x:%x", &domain, &bus) != 2) return 2;
  *device = reinterpret_cast<void*>(0x1000L + (bus - 0x10));
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = reinterpret_cast<void*>(0x1000L);
  (void)uuid;
  return 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned length) {
  snprintf(text, length, "Emulated GPU (no hardware)");
  return 0;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = reinterpret_cast<long>(device) - 0x1000L;
  return 0;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* active) {
  *active = link < 18;
  return link < 18 ? 0 : 2;
}
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  *current = *pending = 0;
  return 0;
}
int nvmlDeviceGetP2PStatus(void*, void*, int, int* status) {
  *status = 0;
  return 0;
}
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  const unsigned bus = 0x10 + static_cast<unsigned>(reinterpret_cast<long>(device) - 0x1000L);
  memset(info, 0, sizeof(*info));
  info->bus = bus;
  info->pci_device_id = 0x233010de;
  snprintf(info->bus_id_legacy, sizeof(info->bus_id_legacy), "0000:%02X:00.0", bus);
  snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%02X:00.0", bus);
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  const char* text = getenv("GPU_EMULATOR_COMPUTE_CAPABILITY");
  const int capability = text == nullptr ? 85 : atoi(text);
  *major = capability / 10;
  *minor = capability % 10;
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  snprintf(text, length, "GPU-66616b65-6375-6461-646f-75626c650%03lx", reinterpret_cast<long>(device) - 0x1000L);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* info) {
  info[0] = 8ULL << 30, info[1] = 8ULL << 30, info[2] = 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* type) {
  *type = 2;
  return 0;
}  // a switch
int nvmlDeviceGetNvLinkCapability(void*, unsigned, int, unsigned* value) {
  *value = 1;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 5;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* width) {
  *width = 16;
  return 0;
}
}
