#include <cuda.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "driver/death.h"
#include "driver/driver_fixture.h"

namespace emulator {
namespace {

TEST_CASE("Fresh memory is not zero") {
  DriverFixture gpu;
  for (int i = 0; i < 8; ++i) {
    const CUdeviceptr pointer = gpu.Memory(1000);
    const std::vector<uint8_t> content = gpu.Read(pointer, 1000);
    CHECK(std::count(content.begin(), content.end(), 0) == 0);
    CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  }
}

TEST_CASE("An address is not given again") {
  DriverFixture gpu;
  std::vector<CUdeviceptr> seen;
  for (int i = 0; i < 100; ++i) {
    const CUdeviceptr pointer = gpu.Memory(64);
    CHECK(std::find(seen.begin(), seen.end(), pointer) == seen.end());
    seen.push_back(pointer);
    CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  }
}

DYING_TEST_CASE("copies freed memory") {
  DriverFixture gpu;
  const CUdeviceptr pointer = gpu.Memory(1000);
  cuMemFree(pointer);
  char byte = 0;
  cuMemcpyDtoH(&byte, pointer + 10, 1);
}
TEST_CASE("A copy of freed memory ends the process and says who freed it") {
  CHECK(Dies("copies freed memory", "lies 10 bytes into 1000 bytes by cuMemAlloc_v2 that cuMemFree_v2 freed"));
}

DYING_TEST_CASE("frees memory of a pool under a copy") {
  DriverFixture gpu;
  const CUstream stream = gpu.Stream();
  uint32_t* words = gpu.Pinned(4);
  CUdeviceptr pointer = 0;
  cuMemAllocAsync(&pointer, 64, stream);
  gpu.Hold(stream, words);
  cuMemcpyDtoHAsync(words + 1, pointer, 4, stream);
  cuMemFree(pointer);
  gpu.LetGo(words);
  cuStreamSynchronize(stream);
}
TEST_CASE("Memory of a pool that is freed while a copy waits ends the process") {
  CHECK(Dies("frees memory of a pool under a copy", "cuMemcpyDtoHAsync_v2 reads 4 bytes"));
}

DYING_TEST_CASE("copies beyond an allocation") {
  DriverFixture gpu;
  const CUdeviceptr pointer = gpu.Memory(1000);
  const std::vector<char> bytes(1001);
  cuMemcpyHtoD(pointer, bytes.data(), 1001);
}
TEST_CASE("A copy beyond an allocation ends the process") {
  CHECK(Dies("copies beyond an allocation", "1 bytes beyond the end"));
}

DYING_TEST_CASE("frees twice") {
  DriverFixture gpu;
  const CUdeviceptr pointer = gpu.Memory(8);
  cuMemFree(pointer);
  cuMemFree(pointer);
}
DYING_TEST_CASE("frees the middle of an allocation") {
  DriverFixture gpu;
  cuMemFree(gpu.Memory(800) + 256);
}
TEST_CASE("Freeing twice or what is no start of an allocation ends the process") {
  CHECK(Dies("frees twice", "cuMemFree_v2: this is no allocation"));
  CHECK(Dies("frees the middle of an allocation", "lies 256 bytes into 800 bytes"));
}

DYING_TEST_CASE("reads device memory on the host") {
  DriverFixture gpu;
  const volatile char* memory = reinterpret_cast<const char*>(gpu.Memory(800) + 4);
  static_cast<void>(*memory);
}
TEST_CASE("The host cannot read device memory") {
  CHECK(Dies("reads device memory on the host", "host code reads device memory, which hardware does not allow"));
}

DYING_TEST_CASE("copies freed pinned memory") {
  DriverFixture gpu;
  uint32_t* word = gpu.Pinned(1);
  const CUdeviceptr pointer = gpu.Memory(4);
  cuMemFreeHost(word);
  cuMemcpyHtoDAsync(pointer, word, 4, gpu.Stream());
}
TEST_CASE("Pinned memory that was freed is not copied") {
  CHECK(Dies("copies freed pinned memory", "that cuMemFreeHost freed"));
}

TEST_CASE("Memory runs out at the size of the GPU, and comes back when freed") {
  DriverFixture gpu;
  size_t free_before = 0, total = 0, free_now = 0;
  REQUIRE(cuMemGetInfo(&free_before, &total) == CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  CHECK(cuMemAlloc(&pointer, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  pointer = gpu.Memory(size_t{1} << 20);
  REQUIRE(cuMemGetInfo(&free_now, &total) == CUDA_SUCCESS);
  CHECK(free_now == free_before - (size_t{1} << 20));
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  REQUIRE(cuMemGetInfo(&free_now, &total) == CUDA_SUCCESS);
  CHECK(free_now == free_before);
}

TEST_CASE("Host memory is registered once") {
  DriverFixture gpu;
  std::vector<char> memory(8192);
  REQUIRE(cuMemHostRegister(memory.data(), 4096, 0) == CUDA_SUCCESS);
  CHECK(cuMemHostRegister(memory.data() + 100, 8, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(cuMemHostUnregister(memory.data() + 100) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK(cuMemHostUnregister(memory.data()) == CUDA_SUCCESS);
  CHECK(cuMemHostUnregister(memory.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE("A legacy IPC handle is for other processes, and for memory of cuMemAlloc") {
  DriverFixture gpu;
  const CUdeviceptr pointer = gpu.Memory(64);
  CUipcMemHandle handle{};
  REQUIRE(cuIpcGetMemHandle(&handle, pointer) == CUDA_SUCCESS);
  CUdeviceptr opened = 0;
  CHECK(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_ERROR_INVALID_CONTEXT);
  CUdeviceptr pooled = 0;
  REQUIRE(cuMemAllocAsync(&pooled, 64, nullptr) == CUDA_SUCCESS);
  CHECK(cuIpcGetMemHandle(&handle, pooled) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(pooled) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
}

}  // namespace
}  // namespace emulator
