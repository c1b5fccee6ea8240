// Several devices of one process, for tests of the driver. A file that includes this has four devices with NVLinks.
#pragma once

#include <cuda.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "driver/driver_fixture.h"

namespace emulator {

struct DevicesFixture {
  static constexpr int kDevices = 4;

  DevicesFixture() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    for (int i = 0; i < kDevices; ++i) REQUIRE(cuDevicePrimaryCtxRetain(&contexts[i], i) == CUDA_SUCCESS);
    Use(0);
  }
  ~DevicesFixture() {
    CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
    for (int i = 0; i < kDevices; ++i) CHECK(cuDevicePrimaryCtxRelease(i) == CUDA_SUCCESS);
  }
  DevicesFixture(const DevicesFixture&) = delete;
  DevicesFixture& operator=(const DevicesFixture&) = delete;

  void Use(int device) const { REQUIRE(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS); }
  // Memory of cuMemAlloc on a device. That device is current afterwards.
  CUdeviceptr MemoryOf(int device, size_t bytes = 1024) const {
    Use(device);
    return DriverFixture::Memory(bytes);
  }
  // Lets kernels of `device` use memory that cuMemAlloc made on `peer`. `device` is current afterwards.
  CUresult Enable(int device, int peer) const {
    Use(device);
    return cuCtxEnablePeerAccess(contexts[peer], 0);
  }

  // A kernel of the current device with the parameters %p and %q.
  static CUfunction Kernel(const std::string& instructions) {
    const std::string text =
        ".version 8.1\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q)\n{\n"
        ".reg .b64 %p;\n.reg .b64 %q;\n.reg .b32 %x;\n.reg .b32 %y;\n.reg .pred %c;\n"
        "ld.param.u64 %p, [p];\nld.param.u64 %q, [q];\n" +
        instructions + "\nret;\n}\n";
    CUmodule module = nullptr;
    REQUIRE(cuModuleLoadData(&module, text.c_str()) == CUDA_SUCCESS);
    CUfunction function = nullptr;
    REQUIRE(cuModuleGetFunction(&function, module, "k") == CUDA_SUCCESS);
    return function;
  }
  static CUresult Launch(CUfunction function, CUstream stream, CUdeviceptr p, CUdeviceptr q = 0) {
    std::vector<void*> parameters = {&p, &q};
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters.data(), nullptr);
  }
  // Launches a kernel on the current device; returns what its stream says.
  static CUresult Run(const std::string& instructions, CUdeviceptr p, CUdeviceptr q = 0) {
    const CUstream stream = DriverFixture::Stream();
    REQUIRE(Launch(Kernel(instructions), stream, p, q) == CUDA_SUCCESS);
    return cuStreamSynchronize(stream);
  }

  CUcontext contexts[kDevices] = {};
};

// Read when the driver starts.
inline const bool kHasSettings =
    setenv("GPU_EMULATOR_DEVICES", "4", 0) == 0 && setenv("GPU_EMULATOR_COMPUTE_CAPABILITY", "90", 0) == 0;

// Memory of cuMemCreate on a device.
struct Granule {
  static constexpr size_t kBytes = size_t{2} << 20;

  explicit Granule(int device, unsigned types = CU_MEM_HANDLE_TYPE_NONE, size_t bytes = kBytes) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(types);
    REQUIRE(cuMemCreate(&handle, bytes, &properties, 0) == CUDA_SUCCESS);
  }
  // A mapping of any handle, for devices that may read and write.
  static CUdeviceptr Map(CUmemGenericAllocationHandle mapped, const std::vector<int>& devices, size_t bytes = kBytes) {
    CUdeviceptr pointer = 0;
    REQUIRE(cuMemAddressReserve(&pointer, bytes, 0, 0, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemMap(pointer, bytes, 0, mapped, 0) == CUDA_SUCCESS);
    for (const int device : devices) REQUIRE(Allow(pointer, device, bytes) == CUDA_SUCCESS);
    return pointer;
  }
  CUdeviceptr MapFor(const std::vector<int>& devices) const { return Map(handle, devices); }
  static CUresult Allow(CUdeviceptr pointer, int device, size_t bytes = kBytes,
                        CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    access.flags = flags;
    return cuMemSetAccess(pointer, bytes, &access, 1);
  }

  CUmemGenericAllocationHandle handle = 0;
};

}  // namespace emulator
