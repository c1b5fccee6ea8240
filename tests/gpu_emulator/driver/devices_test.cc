// Several devices of one process: who may use whose memory.
#include <cuda.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "driver/death.h"
#include "driver/devices_fixture.h"

namespace emulator {
namespace {

const char* const kWrites = "st.global.b32 [%p], 7;";

// Ends the process with what the launch wrote to stderr.
void ExpectFailure(CUresult result) {
  if (result != CUDA_SUCCESS) _exit(1);
}

TEST_CASE("Each device has its own context, streams and memory") {
  const DevicesFixture gpus;
  int count = 0;
  REQUIRE(cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count == DevicesFixture::kDevices);
  for (int device = 0; device < count; ++device) {
    const CUdeviceptr memory = gpus.MemoryOf(device);
    int ordinal = -1;
    REQUIRE(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory) == CUDA_SUCCESS);
    CHECK(ordinal == device);
    CHECK(DevicesFixture::Run(kWrites, memory) == CUDA_SUCCESS);
    CHECK(DriverFixture::Read(memory, 1)[0] == 7);
  }
}

TEST_CASE("A function runs on streams of the device that loaded it") {
  const DevicesFixture gpus;
  const CUdeviceptr memory = gpus.MemoryOf(0);
  const CUfunction of_first = DevicesFixture::Kernel(kWrites);
  gpus.Use(1);
  CHECK(DevicesFixture::Launch(of_first, DriverFixture::Stream(), memory) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("Peer access is enabled once, by one of two devices for itself") {
  const DevicesFixture gpus;
  int can = 0;
  CHECK(cuDeviceCanAccessPeer(&can, 0, 3) == CUDA_SUCCESS);
  CHECK(can == 1);
  CHECK(cuDeviceCanAccessPeer(&can, 2, 2) == CUDA_SUCCESS);
  CHECK(can == 0);
  CHECK(cuDeviceCanAccessPeer(&can, 0, 4) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(gpus.Enable(0, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(gpus.Enable(0, 1) == CUDA_SUCCESS);
  CHECK(gpus.Enable(0, 1) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  gpus.Use(1);
  CHECK(cuCtxDisablePeerAccess(gpus.contexts[0]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  const CUdeviceptr memory = gpus.MemoryOf(1);
  gpus.Use(0);
  CHECK(DevicesFixture::Run(kWrites, memory) == CUDA_SUCCESS);
  CHECK(cuCtxDisablePeerAccess(gpus.contexts[1]) == CUDA_SUCCESS);
}

DYING_TEST_CASE("writes to a device without peer access") {
  const DevicesFixture gpus;
  const CUdeviceptr memory = gpus.MemoryOf(1);
  gpus.Use(0);
  ExpectFailure(DevicesFixture::Run(kWrites, memory));
}
DYING_TEST_CASE("writes to a device after peer access was disabled") {
  const DevicesFixture gpus;
  const CUdeviceptr memory = gpus.MemoryOf(1);
  gpus.Enable(0, 1);
  if (DevicesFixture::Run(kWrites, memory) != CUDA_SUCCESS) return;
  cuCtxDisablePeerAccess(gpus.contexts[1]);
  ExpectFailure(DevicesFixture::Run(kWrites, memory));
}
DYING_TEST_CASE("fills memory of a device without peer access") {
  const DevicesFixture gpus;
  const CUdeviceptr memory = gpus.MemoryOf(1);
  gpus.Use(0);
  cuMemsetD32(memory, 1, 1);
}
DYING_TEST_CASE("writes a word of a device without peer access") {
  const DevicesFixture gpus;
  const CUdeviceptr memory = gpus.MemoryOf(1);
  gpus.Use(0);
  const CUstream stream = DriverFixture::Stream();
  cuStreamWriteValue32(stream, memory, 1, 0);
  cuStreamSynchronize(stream);
}
TEST_CASE("Memory of another device is used with peer access only") {
  const char* const message = "cuCtxEnablePeerAccess gave device 0 no right to memory of device 1: 0x";
  CHECK(Dies("writes to a device without peer access", message));
  CHECK(Dies("writes to a device after peer access was disabled", message));
  CHECK(Dies("fills memory of a device without peer access", message));
  CHECK(Dies("writes a word of a device without peer access", message));
}

TEST_CASE("Copies between devices need no peer access, and contexts that fit") {
  const DevicesFixture gpus;
  const CUdeviceptr from = gpus.MemoryOf(2), to = gpus.MemoryOf(3);
  gpus.Use(2);
  REQUIRE(cuMemsetD32(from, 0x05060708, 256) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  const CUstream stream = DriverFixture::Stream();
  CHECK(cuMemcpyPeerAsync(to, gpus.contexts[2], from, gpus.contexts[2], 1024, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyPeerAsync(to, nullptr, from, gpus.contexts[2], 1024, stream) == CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE(cuMemcpyPeerAsync(to, gpus.contexts[3], from, gpus.contexts[2], 1024, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  gpus.Use(3);
  CHECK(DriverFixture::Read(to + 1020, 4) == std::vector<uint8_t>{8, 7, 6, 5});
}

TEST_CASE("Memory of cuMemCreate is used by the devices that cuMemSetAccess names") {
  const DevicesFixture gpus;
  const CUdeviceptr shared = Granule(1).MapFor({0, 1, 3});
  for (const int device : {0, 1, 3}) {
    gpus.Use(device);
    CHECK(DevicesFixture::Run("ld.global.b32 %x, [%p];\nst.global.b32 [%p+4], 9;", shared) == CUDA_SUCCESS);
  }
}
DYING_TEST_CASE("writes to mapped memory from a device without access") {
  const DevicesFixture gpus;
  const CUdeviceptr shared = Granule(1).MapFor({0, 1});
  gpus.Enable(2, 1);
  ExpectFailure(DevicesFixture::Run(kWrites, shared));
}
DYING_TEST_CASE("writes to mapped memory that it may read") {
  const DevicesFixture gpus;
  const CUdeviceptr shared = Granule(1).MapFor({1});
  Granule::Allow(shared, 2, Granule::kBytes, CU_MEM_ACCESS_FLAGS_PROT_READ);
  gpus.Use(2);
  if (DevicesFixture::Run("ld.global.b32 %x, [%p];", shared) != CUDA_SUCCESS) return;
  ExpectFailure(DevicesFixture::Run(kWrites, shared));
}
DYING_TEST_CASE("copies from mapped memory without access") {
  const DevicesFixture gpus;
  const CUdeviceptr shared = Granule(1).MapFor({0, 1});
  const CUdeviceptr to = gpus.MemoryOf(2);
  cuMemcpyDtoD(to, shared, 16);
  cuCtxSynchronize();
}
TEST_CASE("Access to mapped memory is each device's own; peer access does not give it") {
  const char* const message = "cuMemSetAccess gave device 2 no right to it: 0x";
  CHECK(Dies("writes to mapped memory from a device without access", message));
  CHECK(Dies("writes to mapped memory that it may read", message));
  CHECK(Dies("copies from mapped memory without access", message));
}

// 0 and 2 have links, and 1 and 3.
DYING_TEST_CASE("has two domains of links") {
  const DevicesFixture gpus;
  int can = 1;
  CHECK(cuDeviceCanAccessPeer(&can, 0, 1) == CUDA_SUCCESS);
  CHECK(can == 0);
  CHECK(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 2) == CUDA_SUCCESS);
  CHECK(can == 1);
  CHECK(gpus.Enable(0, 1) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  CHECK(gpus.Enable(0, 2) == CUDA_SUCCESS);
  const CUdeviceptr shared = Granule(1).MapFor({1, 3});
  CHECK(Granule::Allow(shared, 0) == CUDA_ERROR_INVALID_DEVICE);
}
TEST_CASE("Devices without links to each other do not use each other's memory") {
  setenv("GPU_EMULATOR_LINK_DOMAINS", "2", 1);
  CHECK(LastWords("has two domains of links").empty());
  unsetenv("GPU_EMULATOR_LINK_DOMAINS");
}

TEST_CASE("Memory is imported in the process that exported it, with its device") {
  const DevicesFixture gpus;
  constexpr auto kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const Granule granule(2, kFile);
  int fd = -1;
  REQUIRE(cuMemExportToShareableHandle(&fd, granule.handle, kFile, 0) == CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  REQUIRE(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kFile) ==
          CUDA_SUCCESS);
  close(fd);
  CUmemAllocationProp properties{};
  REQUIRE(cuMemGetAllocationPropertiesFromHandle(&properties, imported) == CUDA_SUCCESS);
  CHECK(properties.location.id == 2);
  const CUdeviceptr a = granule.MapFor({2}), b = Granule::Map(imported, {3});
  gpus.Use(3);
  CHECK(DevicesFixture::Run(kWrites, b) == CUDA_SUCCESS);
  gpus.Use(2);
  CHECK(DriverFixture::Read(a, 1)[0] == 7);
}

DYING_TEST_CASE("has a device that fails") {
  const DevicesFixture gpus;
  const CUdeviceptr first = gpus.MemoryOf(0), second = gpus.MemoryOf(1);
  gpus.Use(0);
  CHECK(DevicesFixture::Run("trap;", first) == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(cuMemsetD32(first, 1, 1) == CUDA_ERROR_LAUNCH_FAILED);
  gpus.Use(1);
  CHECK(DevicesFixture::Run(kWrites, second) == CUDA_SUCCESS);
  CHECK(DriverFixture::Read(second, 1)[0] == 7);
}
TEST_CASE("A kernel that fails takes its device away, and no other") {
  CHECK(LastWords("has a device that fails").empty());
}

TEST_CASE("Stores to another device of the process arrive late, as those to other processes") {
  const DevicesFixture gpus;
  const CUdeviceptr shared = Granule(1).MapFor({0, 1});
  gpus.Use(1);
  REQUIRE(cuMemsetD32(shared, 0, 1024) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  // The writer stores data and then a flag without a fence; the reader waits for the flag and keeps what it saw.
  const CUstream reading = DriverFixture::Stream();
  const CUfunction reads = DevicesFixture::Kernel(
      "wait:\nld.relaxed.sys.global.b32 %x, [%p+4];\nsetp.eq.u32 %c, %x, 0;\n@%c bra wait;\n"
      "ld.relaxed.sys.global.b32 %y, [%p];\nst.global.b32 [%q], %y;");
  gpus.Use(0);
  const CUstream writing = DriverFixture::Stream();
  const CUfunction writes = DevicesFixture::Kernel(
      "st.global.b32 [%p], 1;\nst.global.b32 [%p+4], 1;\nmov.u32 %x, 0;\n"
      "more:\nnanosleep.u32 100;\nadd.u32 %x, %x, 1;\nsetp.lt.u32 %c, %x, 20;\n@%c bra more;");
  int stale = 0;
  for (CUdeviceptr at = 0; at < 64; ++at) {
    gpus.Use(1);
    REQUIRE(DevicesFixture::Launch(reads, reading, shared + at * 16, shared + at * 16 + 12) == CUDA_SUCCESS);
    gpus.Use(0);
    REQUIRE(DevicesFixture::Launch(writes, writing, shared + at * 16) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(writing) == CUDA_SUCCESS);
    gpus.Use(1);
    REQUIRE(cuStreamSynchronize(reading) == CUDA_SUCCESS);
    stale += DriverFixture::Read(shared + at * 16 + 12, 1)[0] == 0 ? 1 : 0;
  }
  CHECK(stale > 0);
}

}  // namespace
}  // namespace emulator
