// Multicast objects over devices of one process, and fabric handles.
#include <cuda.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "driver/death.h"
#include "driver/devices_fixture.h"

namespace emulator {
namespace {

constexpr auto kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr auto kFabric = CU_MEM_HANDLE_TYPE_FABRIC;

void ExpectFailure(CUresult result) {
  if (result != CUDA_SUCCESS) _exit(1);
}

CUmulticastObjectProp Properties(unsigned devices, unsigned types = 0) {
  CUmulticastObjectProp properties{};
  properties.numDevices = devices;
  properties.size = Granule::kBytes;
  properties.handleTypes = types;
  return properties;
}

CUmemGenericAllocationHandle NewObject(unsigned devices, const std::vector<int>& added, unsigned types = 0) {
  const CUmulticastObjectProp properties = Properties(devices, types);
  CUmemGenericAllocationHandle object = 0;
  REQUIRE(cuMulticastCreate(&object, &properties) == CUDA_SUCCESS);
  for (const int device : added) REQUIRE(cuMulticastAddDevice(object, device) == CUDA_SUCCESS);
  return object;
}

CUresult Bind(CUmemGenericAllocationHandle object, const Granule& memory) {
  return cuMulticastBindMem(object, 0, memory.handle, 0, Granule::kBytes, 0);
}

const char* const kStoresToAll = "mov.u32 %x, 5;\nmultimem.st.relaxed.sys.global.u32 [%p+8], %x;";
const char* const kSums = "multimem.ld_reduce.relaxed.sys.global.add.u32 %x, [%p];\nst.global.u32 [%q], %x;";

TEST_CASE("A multicast address stands for the memory of all devices that bound some") {
  const DevicesFixture gpus;
  const auto object = NewObject(3, {0, 1, 3});
  std::vector<Granule> memory;
  for (const int device : {0, 1, 3}) {
    memory.emplace_back(device);
    REQUIRE(Bind(object, memory.back()) == CUDA_SUCCESS);
  }
  const CUdeviceptr multicast = Granule::Map(object, {0, 1, 3});
  std::vector<CUdeviceptr> own;
  for (size_t i = 0; i < 3; ++i) {
    own.push_back(memory[i].MapFor({i == 2 ? 3 : static_cast<int>(i)}));
    gpus.Use(i == 2 ? 3 : static_cast<int>(i));
    REQUIRE(cuMemsetD32(own[i], static_cast<unsigned>(10 + i), 1) == CUDA_SUCCESS);
    REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  }
  gpus.Use(1);
  REQUIRE(DevicesFixture::Run(kSums, multicast, own[1] + 4) == CUDA_SUCCESS);
  CHECK(DriverFixture::Read(own[1] + 4, 1)[0] == 33);
  gpus.Use(3);
  REQUIRE(DevicesFixture::Run(kStoresToAll, multicast) == CUDA_SUCCESS);
  for (size_t i = 0; i < 3; ++i) {
    gpus.Use(i == 2 ? 3 : static_cast<int>(i));
    CHECK(DriverFixture::Read(own[i] + 8, 1)[0] == 5);
  }
  CHECK(cuMulticastUnbind(object, 1, 0, Granule::kBytes) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(multicast, Granule::kBytes) == CUDA_SUCCESS);
  CHECK(cuMemRelease(object) == CUDA_SUCCESS);
}

TEST_CASE("Devices and memory of a multicast object fit") {
  const DevicesFixture gpus;
  const auto object = NewObject(2, {0});
  CHECK(cuMulticastAddDevice(object, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMulticastAddDevice(object, 1) == CUDA_SUCCESS);
  CHECK(cuMulticastAddDevice(object, 2) == CUDA_ERROR_INVALID_VALUE);
  const Granule first(0), again(0), outside(2);
  CHECK(Bind(object, outside) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(Bind(object, first) == CUDA_SUCCESS);
  CHECK(Bind(object, again) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMulticastBindMem(object, Granule::kBytes, first.handle, 0, Granule::kBytes, 0) == CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr multicast = Granule::Map(object, {});
  CHECK(Granule::Allow(multicast, 2) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(Bind(NewObject(1, {0}, kFile), Granule(0)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(Bind(NewObject(1, {0}, kFile), Granule(0, kFile)) == CUDA_SUCCESS);
}

DYING_TEST_CASE("binds before all devices were added") {
  const DevicesFixture gpus;
  Bind(NewObject(2, {0}), Granule(0));
}
DYING_TEST_CASE("maps a multicast object before all devices were added") {
  const DevicesFixture gpus;
  Granule::Map(NewObject(2, {0}), {0});
}
DYING_TEST_CASE("binds half of a granule") {
  const DevicesFixture gpus;
  cuMulticastBindMem(NewObject(1, {0}), 0, Granule(0).handle, 0, Granule::kBytes / 2, 0);
}
DYING_TEST_CASE("uses a multicast object where a device has bound nothing") {
  const DevicesFixture gpus;
  const auto object = NewObject(2, {0, 1});
  Bind(object, Granule(0));
  ExpectFailure(DevicesFixture::Run(kStoresToAll, Granule::Map(object, {0, 1})));
}
DYING_TEST_CASE("uses a multicast object without access") {
  const DevicesFixture gpus;
  const auto object = NewObject(2, {0, 1});
  Bind(object, Granule(0));
  Bind(object, Granule(1));
  ExpectFailure(DevicesFixture::Run(kStoresToAll, Granule::Map(object, {1})));
}
DYING_TEST_CASE("copies to a multicast address") {
  const DevicesFixture gpus;
  const auto object = NewObject(1, {0});
  Bind(object, Granule(0));
  const CUdeviceptr multicast = Granule::Map(object, {0});
  cuMemcpyDtoD(multicast, gpus.MemoryOf(0), 16);
  cuCtxSynchronize();
}
TEST_CASE("A multicast object that is not complete, or is not used so, ends the process") {
  setenv("GPU_EMULATOR_MULTICAST_TIMEOUT", "1", 1);
  CHECK(Dies("binds before all devices were added", "1 of 2 were added"));
  CHECK(Dies("maps a multicast object before all devices were added", "1 of 2 were added"));
  unsetenv("GPU_EMULATOR_MULTICAST_TIMEOUT");
  CHECK(Dies("binds half of a granule", "the number of bytes, 0x100000, is no multiple of the granularity"));
  CHECK(Dies("uses a multicast object where a device has bound nothing", "is not at a multicast address"));
  CHECK(Dies("uses a multicast object without access", "is not at a multicast address"));
  CHECK(Dies("copies to a multicast address", "only multimem instructions use multicast addresses"));
}

TEST_CASE("GPUs without NVLink SHARP have no multicast objects") {
  const DevicesFixture gpus;
  setenv("GPU_EMULATOR_NVLS", "0", 1);
  const CUmulticastObjectProp properties = Properties(1);
  CUmemGenericAllocationHandle object = 0;
  CHECK(cuMulticastCreate(&object, &properties) == CUDA_ERROR_NOT_SUPPORTED);
  int supported = 1;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0) == CUDA_SUCCESS);
  CHECK(supported == 0);
  unsetenv("GPU_EMULATOR_NVLS");
}

CUresult CreateWithFabric() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  properties.requestedHandleTypes = kFabric;
  CUmemGenericAllocationHandle handle = 0;
  return cuMemCreate(&handle, Granule::kBytes, &properties, 0);
}

TEST_CASE("Fabric handles need a fabric, and an IMEX channel") {
  const DevicesFixture gpus;
  int supported = 1;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0) == CUDA_SUCCESS);
  CHECK(supported == 0);
  CHECK(CreateWithFabric() == CUDA_ERROR_NOT_SUPPORTED);
  setenv("GPU_EMULATOR_FABRIC", "2", 1);
  CHECK(CreateWithFabric() == CUDA_ERROR_NOT_PERMITTED);
  setenv("GPU_EMULATOR_FABRIC", "1", 1);
  CHECK(CreateWithFabric() == CUDA_SUCCESS);
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0) == CUDA_SUCCESS);
  CHECK(supported == 1);
  unsetenv("GPU_EMULATOR_FABRIC");
}

std::string Hex(const CUmemFabricHandle& handle) {
  std::string text;
  for (const unsigned char byte : handle.data) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

CUmemGenericAllocationHandle ImportFromEnvironment(const char* name) {
  CUmemFabricHandle handle{};
  const std::string text = getenv(name);
  for (size_t i = 0; i < sizeof(handle.data); ++i) {
    handle.data[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  CUmemGenericAllocationHandle imported = 0;
  REQUIRE(cuMemImportFromShareableHandle(&imported, &handle, kFabric) == CUDA_SUCCESS);
  return imported;
}

// The object waits for two devices; this process brings the second.
DYING_TEST_CASE("stores to memory and a multicast object of another process") {
  const DevicesFixture gpus;
  gpus.Use(2);
  const CUdeviceptr shared = Granule::Map(ImportFromEnvironment("MEMORY"), {2});
  CHECK(DevicesFixture::Run("st.global.b32 [%p], 6;", shared) == CUDA_SUCCESS);
  const CUmemGenericAllocationHandle object = ImportFromEnvironment("MULTICAST");
  REQUIRE(cuMulticastAddDevice(object, 2) == CUDA_SUCCESS);
  const Granule own(2, kFabric);
  REQUIRE(Bind(object, own) == CUDA_SUCCESS);
  const CUstream stream = DriverFixture::Stream();
  REQUIRE(cuStreamWaitValue32(stream, shared + 4, 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);  // the other has bound
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(DevicesFixture::Run(kStoresToAll, Granule::Map(object, {2})) == CUDA_SUCCESS);
  CHECK(DriverFixture::Read(own.MapFor({2}) + 8, 1)[0] == 5);
}
TEST_CASE("Another process imports memory and a multicast object by fabric handles") {
  setenv("GPU_EMULATOR_FABRIC", "1", 1);
  const DevicesFixture gpus;
  const Granule memory(0, kFabric);
  const CUdeviceptr pointer = memory.MapFor({0});
  const auto object = NewObject(2, {0}, kFabric);
  CUmemFabricHandle of_memory{}, of_object{};
  REQUIRE(cuMemExportToShareableHandle(&of_memory, memory.handle, kFabric, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemExportToShareableHandle(&of_object, object, kFabric, 0) == CUDA_SUCCESS);
  int fd = -1;
  CHECK(cuMemExportToShareableHandle(&fd, memory.handle, kFile, 0) == CUDA_ERROR_INVALID_VALUE);
  setenv("MEMORY", Hex(of_memory).c_str(), 1);
  setenv("MULTICAST", Hex(of_object).c_str(), 1);
  std::string words;
  std::thread other([&] { words = LastWords("stores to memory and a multicast object of another process"); });
  REQUIRE(Bind(object, memory) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32(pointer + 4, 1, 1) == CUDA_SUCCESS);
  other.join();
  CHECK(words == "");
  const std::vector<uint8_t> content = DriverFixture::Read(pointer, 12);
  CHECK(content[0] == 6);
  CHECK(content[8] == 5);
  unsetenv("GPU_EMULATOR_FABRIC");
}

}  // namespace
}  // namespace emulator
