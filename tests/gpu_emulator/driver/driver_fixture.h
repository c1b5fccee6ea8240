// A device with a current context, streams and memory, for tests of the driver.
#pragma once

#include <cuda.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

struct DriverFixture {
  DriverFixture() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  }
  ~DriverFixture() {
    CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  }
  DriverFixture(const DriverFixture&) = delete;
  DriverFixture& operator=(const DriverFixture&) = delete;

  static CUstream Stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream stream = nullptr;
    REQUIRE(cuStreamCreate(&stream, flags) == CUDA_SUCCESS);
    return stream;
  }
  static CUdeviceptr Memory(size_t bytes) {
    CUdeviceptr pointer = 0;
    REQUIRE(cuMemAlloc(&pointer, bytes) == CUDA_SUCCESS);
    return pointer;
  }
  // Pinned words that are zero.
  static uint32_t* Pinned(size_t count) {
    void* memory = nullptr;
    REQUIRE(cuMemAllocHost(&memory, count * 4) == CUDA_SUCCESS);
    auto* words = static_cast<uint32_t*>(memory);
    for (size_t i = 0; i < count; ++i) words[i] = 0;
    return words;
  }
  static CUdeviceptr Address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
  static std::vector<uint8_t> Read(CUdeviceptr pointer, size_t bytes) {
    std::vector<uint8_t> values(bytes);
    REQUIRE(cuMemcpyDtoH(values.data(), pointer, bytes) == CUDA_SUCCESS);
    return values;
  }
  // A wait that holds the stream until the word is 1.
  static void Hold(CUstream stream, const uint32_t* word) {
    REQUIRE(cuStreamWaitValue32(stream, Address(word), 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  }
  static void LetGo(uint32_t* word) { __atomic_store_n(word, 1, __ATOMIC_RELEASE); }

  CUcontext context = nullptr;
};

}  // namespace emulator
