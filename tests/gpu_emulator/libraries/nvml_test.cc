// The emulated machine through the double of NVML.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetCount_v2(unsigned*);
int nvmlDeviceGetHandleByIndex_v2(unsigned, void**);
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void**);
int nvmlDeviceGetHandleByUUID(const char*, void**);
int nvmlDeviceGetName(void*, char*, unsigned);
int nvmlDeviceGetUUID(void*, char*, unsigned);
int nvmlDeviceGetNvLinkState(void*, unsigned, unsigned*);
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned*);
int nvmlDeviceGetP2PStatus(void*, void*, int, unsigned*);
int nvmlDeviceGetGpuFabricInfoV(void*, void*);
int nvmlDeviceGetFieldValues(void*, int, void*);
int nvmlSystemGetConfComputeState(unsigned*);
int nvmlDeviceGetTemperature();
}

namespace {
constexpr int kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kTooSmall = 7;
}  // namespace

TEST_CASE("NVML tells nothing before it is initialised") {
  unsigned count = 0;
  CHECK(nvmlDeviceGetCount_v2(&count) == kUninitialized);
  CHECK(nvmlShutdown() == kUninitialized);
}

TEST_CASE("NVML names the device, finds it by its addresses, and describes a switched machine without a fabric") {
  REQUIRE(nvmlInit_v2() == kSuccess);
  unsigned count = 0;
  REQUIRE(nvmlDeviceGetCount_v2(&count) == kSuccess);
  REQUIRE(count == 1);
  void *device = nullptr, *other = nullptr;
  REQUIRE(nvmlDeviceGetHandleByIndex_v2(0, &device) == kSuccess);
  CHECK(nvmlDeviceGetHandleByIndex_v2(1, &other) == kInvalidArgument);
  char text[96];
  REQUIRE(nvmlDeviceGetName(device, text, sizeof(text)) == kSuccess);
  CHECK(std::string(text) == "Emulated GPU (no hardware)");
  CHECK(nvmlDeviceGetName(device, text, 5) == kTooSmall);
  REQUIRE(nvmlDeviceGetUUID(device, text, sizeof(text)) == kSuccess);
  CHECK(nvmlDeviceGetHandleByUUID(text, &other) == kSuccess);
  CHECK(other == device);
  CHECK(nvmlDeviceGetHandleByUUID("GPU-none", &other) == kNotFound);
  CHECK(nvmlDeviceGetHandleByPciBusId_v2("00000000:10:00.0", &other) == kSuccess);
  CHECK(nvmlDeviceGetHandleByPciBusId_v2("00000000:11:00.0", &other) == kNotFound);
  unsigned value = 0;
  CHECK(nvmlDeviceGetNvLinkState(device, 17, &value) == kSuccess);
  CHECK(value == 1);
  CHECK(nvmlDeviceGetNvLinkState(device, 18, &value) == kInvalidArgument);
  CHECK(nvmlDeviceGetNvLinkRemoteDeviceType(device, 0, &value) == kSuccess);
  CHECK(value == 2);
  CHECK(nvmlDeviceGetP2PStatus(device, device, 0, &value) == kSuccess);
  CHECK(value == 0);
  unsigned char fabric[36];
  memset(fabric, 0xff, sizeof(fabric));
  const unsigned version = sizeof(fabric) | (2u << 24), wrong = sizeof(fabric) | (9u << 24);
  memcpy(fabric, &wrong, sizeof(wrong));
  CHECK(nvmlDeviceGetGpuFabricInfoV(device, fabric) == kNotSupported);
  memcpy(fabric, &version, sizeof(version));
  CHECK(nvmlDeviceGetGpuFabricInfoV(device, fabric) == kSuccess);
  for (size_t i = sizeof(version); i < sizeof(fabric); ++i) CHECK(fabric[i] == 0);
  setenv("GPU_EMULATOR_FABRIC", "1", 1);
  CHECK(nvmlDeviceGetGpuFabricInfoV(device, fabric) == kSuccess);
  CHECK(fabric[4] != 0);   // the cluster's name
  CHECK(fabric[28] == 3);  // completed
  unsetenv("GPU_EMULATOR_FABRIC");
  unsigned state[3] = {7, 7, 7};
  CHECK(nvmlSystemGetConfComputeState(state) == kSuccess);
  CHECK((state[0] | state[1] | state[2]) == 0);
  CHECK(nvmlDeviceGetName(&value, text, sizeof(text)) == kInvalidArgument);
  CHECK(nvmlDeviceGetTemperature() == kNotSupported);
  CHECK(nvmlShutdown() == kSuccess);
}

TEST_CASE("Each field has a result of its own, and a call without one fails") {
  struct Field {  // nvmlFieldValue_t
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    unsigned long long value;
  };
  constexpr unsigned kNvLinks = 91, kTemperature = 82;
  void* device = nullptr;
  CHECK(nvmlDeviceGetFieldValues(device, 1, nullptr) == kUninitialized);
  REQUIRE(nvmlInit_v2() == kSuccess);
  REQUIRE(nvmlDeviceGetHandleByIndex_v2(0, &device) == kSuccess);
  Field fields[2] = {{kTemperature, 0, 5, 5, 5, 5, 5}, {kNvLinks, 0, 5, 5, 5, 5, 5}};
  CHECK(nvmlDeviceGetFieldValues(device, 2, fields) == kSuccess);
  CHECK(fields[0].result == kNotSupported);
  CHECK(fields[1].result == kSuccess);
  CHECK(fields[1].type == 1);
  CHECK(fields[1].value == 18);
  CHECK(nvmlDeviceGetFieldValues(device, 1, fields) == kNotSupported);
  CHECK(nvmlDeviceGetFieldValues(device, 0, fields) == kInvalidArgument);
  CHECK(nvmlShutdown() == kSuccess);
}
