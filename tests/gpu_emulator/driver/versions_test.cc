// What depends on the version of the driver or on the compute capability.
#include <cuda.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "driver/driver_fixture.h"

namespace emulator {
namespace {

constexpr size_t kGranule = size_t{2} << 20;
constexpr int kVersions[] = {12020, 12050, 12090, 13010};

// The emulated machine is so while this exists.
class With {
 public:
  With(const char* setting, int value) : name_("GPU_EMULATOR_" + std::string(setting)) {
    setenv(name_.c_str(), std::to_string(value).c_str(), 1);
  }
  ~With() { unsetenv(name_.c_str()); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;

 private:
  const std::string name_;
};

CUdeviceptr MemoryOfCreate() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  REQUIRE(cuMemAddressReserve(&pointer, kGranule, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(pointer, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE(cuMemSetAccess(pointer, kGranule, &access, 1) == CUDA_SUCCESS);
  return pointer;
}

TEST_CASE("Memory operations on memory of cuMemCreate came with CUDA 12.5, those on other memory are older") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  const CUdeviceptr created = MemoryOfCreate(), allocated = gpu.Memory(64);
  for (const int number : kVersions) {
    CAPTURE(number);
    const With version("VERSION", number);
    const CUresult expected = number < 12050 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    CHECK(cuStreamWriteValue64(stream, created, 7, 0) == expected);
    if (expected == CUDA_SUCCESS) {
      CHECK(cuStreamWaitValue64(stream, created, 7, CU_STREAM_WAIT_VALUE_EQ) == expected);
    }
    CHECK(cuStreamWriteValue64(stream, allocated, 7, 0) == CUDA_SUCCESS);
    CHECK(cuStreamWaitValue64(stream, allocated, 7, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
    CHECK(cuStreamWriteValue64(stream, allocated + 4, 7, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamWriteValue64(stream, allocated, 7, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

TEST_CASE("A launch takes the attributes that its GPU has") {
  DriverFixture gpu;  // of compute capability 8.5
  CUmodule module = nullptr;
  REQUIRE(
      cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n") ==
      CUDA_SUCCESS);
  CUfunction function = nullptr;
  REQUIRE(cuModuleGetFunction(&function, module, "k") == CUDA_SUCCESS);
  CUlaunchAttribute attribute{};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = gpu.Stream();
  config.attrs = &attribute;
  config.numAttrs = 1;
  const auto launch = [&](CUlaunchAttributeID id) {
    attribute.id = id;
    return cuLaunchKernelEx(&config, function, nullptr, nullptr);
  };
  CHECK(launch(CU_LAUNCH_ATTRIBUTE_PRIORITY) == CUDA_SUCCESS);
  attribute.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  CHECK(launch(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(launch(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(launch(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) == CUDA_ERROR_NOT_SUPPORTED);
  {
    const With capability("COMPUTE_CAPABILITY", 90);
    CHECK(launch(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN) == CUDA_SUCCESS);
    CHECK(launch(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) == CUDA_SUCCESS);
    CHECK(launch(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) == CUDA_ERROR_NOT_SUPPORTED);
  }
  CHECK(cuStreamSynchronize(config.hStream) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace emulator
