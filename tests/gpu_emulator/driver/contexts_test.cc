#include <cuda.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "driver/death.h"
#include "driver/driver_fixture.h"

namespace emulator {
namespace {

// Two devices, for all cases: the driver reads it once.
const int two_devices = setenv("GPU_EMULATOR_DEVICES", "2", 1);

constexpr const char* kPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 store_param_0) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [store_param_0];
  st.global.u32 [%rd1], 5;
  ret;
}
)";

CUfunction LoadStore(CUmodule* module) {
  CUfunction function = nullptr;
  REQUIRE(cuModuleLoadData(module, kPtx) == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&function, *module, "store") == CUDA_SUCCESS);
  return function;
}

CUresult LaunchStore(CUfunction function, CUstream stream, CUdeviceptr pointer, unsigned shared_bytes = 0,
                     unsigned threads = 1) {
  void* parameters[] = {&pointer};
  return cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, shared_bytes, stream, parameters, nullptr);
}

TEST_CASE("The device says that it is emulated") {
  const DriverFixture gpu;
  std::array<char, 64> name{};
  REQUIRE(cuDeviceGetName(name.data(), static_cast<int>(name.size()), 0) == CUDA_SUCCESS);
  CHECK(std::string(name.data()) == "Emulated GPU (no hardware)");
}

TEST_CASE("Errors have the names of cuda.h") {
  const char* name = nullptr;
  REQUIRE(cuGetErrorName(CUDA_ERROR_NOT_SUPPORTED, &name) == CUDA_SUCCESS);
  CHECK(std::string(name) == "CUDA_ERROR_NOT_SUPPORTED");
  CHECK(cuGetErrorName(static_cast<CUresult>(998), &name) == CUDA_ERROR_INVALID_VALUE);
}

DYING_TEST_CASE("fails in a kernel") {
  DriverFixture gpu;
  CUmodule module = nullptr;
  const CUfunction function = LoadStore(&module);
  const CUdeviceptr pointer = gpu.Memory(4);
  REQUIRE(LaunchStore(function, nullptr, pointer) == CUDA_SUCCESS);
  CHECK(gpu.Read(pointer, 1)[0] == 5);
  REQUIRE(LaunchStore(function, nullptr, pointer + 4) == CUDA_SUCCESS);
  const CUresult failure = cuCtxSynchronize();
  CHECK(failure != CUDA_SUCCESS);
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc(&more, 4) == failure);
  CHECK(LaunchStore(function, nullptr, pointer) == failure);
  CHECK(cuStreamQuery(nullptr) == failure);
}
TEST_CASE("A failed kernel makes every later call fail") { CHECK(LastWords("fails in a kernel").empty()); }

TEST_CASE("Kernels are launched in streams of their device, within limits, and while they are loaded") {
  DriverFixture gpu;
  CUcontext second = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&second, 1) == CUDA_SUCCESS);
  CUmodule module = nullptr;
  const CUfunction function = LoadStore(&module);
  const CUdeviceptr pointer = gpu.Memory(4);
  REQUIRE(cuCtxPushCurrent(second) == CUDA_SUCCESS);
  const CUstream foreign = gpu.Stream();
  REQUIRE(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  CHECK(LaunchStore(function, foreign, pointer) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventRecord(event, foreign) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(LaunchStore(function, nullptr, pointer, 64 << 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(LaunchStore(function, nullptr, pointer, 0, 1025) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuModuleUnload(module) == CUDA_SUCCESS);
  CHECK(LaunchStore(function, nullptr, pointer) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(foreign) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(1) == CUDA_SUCCESS);
}

TEST_CASE("A primary context that nobody retains is not used") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetFlags(CU_CTX_SYNC_MEMOPS) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRelease(1) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(1) == CUDA_ERROR_INVALID_CONTEXT);
  CUdeviceptr pointer = 0;
  CHECK(cuMemAlloc(&pointer, 4) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  unsigned flags = 1;
  int active = 1;
  REQUIRE(cuDevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS);
  CHECK(flags == 0);
  CHECK(active == 0);
  REQUIRE(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
}

std::string HandleFile(const char* process) { return std::string("/tmp/gpu_emulator_handle.") + process; }

DYING_TEST_CASE("opens a peer's memory") {
  DriverFixture gpu;
  CUipcMemHandle handle{};
  std::ifstream(HandleFile(getenv("PEER")), std::ios::binary).read(reinterpret_cast<char*>(&handle), sizeof(handle));
  CUdeviceptr pointer = 0;
  CHECK(cuIpcOpenMemHandle(&pointer, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuIpcOpenMemHandle(&pointer, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
  CHECK(gpu.Read(pointer, 1)[0] == 5);
  REQUIRE(cuMemsetD32(pointer, 9, 1) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuIpcCloseMemHandle(pointer) == CUDA_SUCCESS);
}
TEST_CASE("Another process opens a legacy IPC handle and sees the same memory") {
  DriverFixture gpu;
  const CUdeviceptr pointer = gpu.Memory(64);
  REQUIRE(cuMemsetD32(pointer, 5, 1) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CUipcMemHandle handle{};
  REQUIRE(cuIpcGetMemHandle(&handle, pointer) == CUDA_SUCCESS);
  const std::string process = std::to_string(getpid());
  setenv("PEER", process.c_str(), 1);
  std::ofstream(HandleFile(process.c_str()), std::ios::binary).write(reinterpret_cast<char*>(&handle), sizeof(handle));
  CHECK(LastWords("opens a peer's memory").empty());
  CHECK(gpu.Read(pointer, 1)[0] == 9);
  remove(HandleFile(process.c_str()).c_str());
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace emulator
